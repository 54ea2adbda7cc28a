package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v79"
	"github.com/stripe/stripe-go/v79/form"
	"github.com/tidwall/gjson"
)

// Listing is a kind of object that can be listed, by its path.
type Listing string

// The listings.
const (
	ListEvents   Listing = "/v1/events"
	ListSessions Listing = "/v1/checkout/sessions" // each with its intent
	ListIntents  Listing = "/v1/payment_intents"
	ListRefunds  Listing = "/v1/refunds"
	ListDisputes Listing = "/v1/disputes"
)

// MaxTypes is how many event types one listing may ask for (https://docs.stripe.com/api/events/list).
const MaxTypes = 20

// EventWindow is how far back Stripe lists events (https://docs.stripe.com/api/events/list).
const EventWindow = 30 * 24 * time.Hour

// Walk is what is walked through: every object of a listing with Since <= created < Until.
// Both are whole seconds, as created is: windows that meet share no object and miss none.
type Walk struct {
	Listing      Listing
	Types        []string // of events: at most MaxTypes
	Since, Until time.Time
}

// Object is one object of a page, byte for byte.
type Object struct {
	ID      string
	Created time.Time
	Raw     json.RawMessage
}

// Cursor is where a walk stands: after the object that it names. "" is before the first.
type Cursor string

// Page is a page of a walk, oldest first.
type Page struct {
	Objects []Object
	Cursor  Cursor // after the last of them; where the walk stood, if there is none
	More    bool
}

// Lister walks through listings, oldest first, to the end.
//
// Stripe lists the newest first. To begin at the other end, the oldest page is looked for by
// halving the window; from its newest object on, the pages before it in Stripe's order are
// the next ones in ours (ending_before, https://docs.stripe.com/api/pagination). So a walk
// holds one page, however long the window; the place in it is an id, which tells apart the
// objects of one second; and what appears meanwhile appears ahead, at the new end.
type Lister struct {
	Stripe    *Stripe
	PageSize  int // zero means 100, the most there is
	PerSecond int // requests; zero means DefaultPerSecond
	Attempts  int // at one page; zero means DefaultAttempts
	Now       func() time.Time

	next time.Time // the earliest time of the next request
}

// Stripe allows 25 requests a second in test mode and 100 in live mode, of one account and
// all its programs together (https://docs.stripe.com/rate-limits). Ten leave most of both to
// those who are waiting for an answer. Six attempts at a page are half a minute.
const (
	DefaultPerSecond = 10
	DefaultAttempts  = 6
)

// Next returns the page after the cursor. A page that could not be had is an error, after
// some attempts, and leaves the walk where it was.
func (l *Lister) Next(ctx context.Context, w Walk, after Cursor) (Page, error) {
	if !w.Since.Before(w.Until) {
		return Page{Cursor: after}, nil
	}
	if after == "" {
		return l.oldest(ctx, w)
	}
	created, id, err := after.read()
	if err != nil {
		return Page{}, err
	}
	got, err := l.ask(ctx, w, question{endingBefore: id})
	if errors.Is(err, errCursorGone) {
		// An event that the provider lists no more, or an object that was deleted. Its second
		// is walked through again.
		w.Since = later(w.Since, created)
		return l.oldest(ctx, w)
	}
	if err != nil {
		return Page{}, err
	}
	return got.page(after, got.more), nil
}

// oldest finds the oldest page of the window.
func (l *Lister) oldest(ctx context.Context, w Walk) (Page, error) {
	got, err := l.ask(ctx, w, question{})
	if err != nil {
		return Page{}, err
	}
	if !got.more {
		return got.page("", false), nil
	}
	// There is nothing before low, and more than a page before high.
	low, high := w.Since, later(w.Since, got.last().Created).Add(time.Second)
	for high.Sub(low) > time.Second {
		half := w
		half.Since, half.Until = low, low.Add(high.Sub(low)/2).Truncate(time.Second)
		got, err := l.ask(ctx, half, question{})
		switch {
		case err != nil:
			return Page{}, err
		case len(got.objects) == 0:
			low = half.Until
		case got.more:
			high = earlier(half.Until, got.last().Created.Add(time.Second))
		default:
			return got.page("", true), nil
		}
	}
	return l.oldestOfSecond(ctx, w, low)
}

// oldestOfSecond finds the oldest page of a second that holds more than one. It goes through
// the second's pages from the newest, and keeps the last.
func (l *Lister) oldestOfSecond(ctx context.Context, w Walk, second time.Time) (Page, error) {
	w.Since, w.Until = second, second.Add(time.Second)
	var q question
	for {
		got, err := l.ask(ctx, w, q)
		if err != nil {
			return Page{}, err
		}
		if !got.more {
			return got.page("", true), nil
		}
		q.startingAfter = got.last().ID
	}
}

// question is which page is wanted, in the provider's order.
type question struct {
	endingBefore, startingAfter string
}

// listed is a page as the provider lists it, newest first.
type listed struct {
	objects []Object
	more    bool
}

func (l listed) last() Object { return l.objects[len(l.objects)-1] }

// page turns the page over.
func (l listed) page(stood Cursor, more bool) Page {
	p := Page{Cursor: stood, More: more, Objects: make([]Object, 0, len(l.objects))}
	for i := len(l.objects) - 1; i >= 0; i-- {
		p.Objects = append(p.Objects, l.objects[i])
	}
	if len(l.objects) > 0 {
		p.Cursor = cursorAfter(l.objects[0])
	}
	return p
}

// Newest returns the newest page of the window, as the provider lists it: the newest first.
func (l *Lister) Newest(ctx context.Context, w Walk) ([]Object, error) {
	got, err := l.ask(ctx, w, question{})
	return got.objects, err
}

// Get reads one object of a listing by its id.
func (l *Lister) Get(ctx context.Context, kind Listing, id string) (Object, error) {
	var object Object
	err := l.patiently(ctx, func() error {
		values := &form.Values{}
		if kind == ListSessions {
			values.Add("expand[]", "payment_intent")
		}
		raw, err := l.Stripe.raw(ctx, string(kind)+"/"+id, values)
		if err != nil {
			return err
		}
		object, err = objectOf(raw)
		return err
	})
	if err != nil {
		return Object{}, fmt.Errorf("reading %s/%s: %w", kind, id, err)
	}
	return object, nil
}

// ask asks for one page, within the budget, as often as it takes.
func (l *Lister) ask(ctx context.Context, w Walk, q question) (listed, error) {
	values := &form.Values{}
	values.Add("limit", strconv.Itoa(l.pageSize()))
	values.Add("created[gte]", strconv.FormatInt(w.Since.Unix(), 10))
	values.Add("created[lt]", strconv.FormatInt(w.Until.Unix(), 10))
	for _, t := range w.Types {
		values.Add("types[]", t)
	}
	if w.Listing == ListSessions {
		values.Add("expand[]", "data.payment_intent")
	}
	if q.endingBefore != "" {
		values.Add("ending_before", q.endingBefore)
	}
	if q.startingAfter != "" {
		values.Add("starting_after", q.startingAfter)
	}
	var got listed
	err := l.patiently(ctx, func() error {
		raw, err := l.Stripe.raw(ctx, string(w.Listing), values)
		if err != nil {
			return err
		}
		got, err = readList(raw)
		return err
	})
	if err != nil {
		return listed{}, fmt.Errorf("listing %s: %w", w.Listing, err)
	}
	return got, nil
}

// longestPatience is the wait that is left to the next run: a job's time is not longer, and a
// key that may not read a listing is told to come back as late as this.
const longestPatience = time.Minute

// patiently makes a request within the budget, and again while the provider says so.
func (l *Lister) patiently(ctx context.Context, request func() error) error {
	attempts := l.Attempts
	if attempts == 0 {
		attempts = DefaultAttempts
	}
	wait := time.Second
	for n := 1; ; n++ {
		if err := l.pace(ctx); err != nil {
			return err
		}
		err := request()
		var again *RetryError
		if !errors.As(err, &again) || again.After >= longestPatience || n == attempts || ctx.Err() != nil {
			return err
		}
		if err := pause(ctx, max(again.After, wait)); err != nil {
			return err
		}
		wait *= 2
	}
}

// pace waits until the budget allows the next request.
func (l *Lister) pace(ctx context.Context) error {
	perSecond := l.PerSecond
	if perSecond == 0 {
		perSecond = DefaultPerSecond
	}
	now := l.Now()
	wait := l.next.Sub(now)
	l.next = later(now, l.next).Add(time.Second / time.Duration(perSecond))
	return pause(ctx, wait)
}

func (l *Lister) pageSize() int {
	if l.PageSize == 0 {
		return pageSize
	}
	return l.PageSize
}

func pause(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// errCursorGone means that the object after which to go on is not listed any more.
var errCursorGone = errors.New("the object after which to go on is gone")

// raw reads any path, byte for byte.
func (s *Stripe) raw(ctx context.Context, path string, values *form.Values) ([]byte, error) {
	params := &stripe.Params{Context: ctx}
	if s.account != "" {
		params.SetStripeAccount(s.account)
	}
	var got answer
	err := s.backend.CallRaw(http.MethodGet, path, s.key, values, params, &got)
	var refused *stripe.Error
	if errors.As(err, &refused) && refused.Code == stripe.ErrorCodeResourceMissing && refused.Param == "ending_before" {
		return nil, errCursorGone
	}
	if err != nil {
		classified, _ := classify(err)
		return nil, classified
	}
	return got.LastResponse.RawJSON, nil
}

// readList reads a list. A list that cannot be read is no empty list.
func readList(raw []byte) (listed, error) {
	var list struct {
		Object  string            `json:"object"`
		Data    []json.RawMessage `json:"data"`
		HasMore bool              `json:"has_more"`
	}
	if err := json.Unmarshal(raw, &list); err != nil || list.Object != "list" || list.HasMore && len(list.Data) == 0 {
		return listed{}, &RetryError{Cause: errUnreadable}
	}
	got := listed{more: list.HasMore}
	for _, data := range list.Data {
		object, err := objectOf(data)
		if err != nil {
			return listed{}, err
		}
		got.objects = append(got.objects, object)
	}
	return got, nil
}

func objectOf(raw []byte) (Object, error) {
	id, created := gjson.GetBytes(raw, "id"), gjson.GetBytes(raw, "created")
	if id.Type != gjson.String || id.Str == "" || created.Type != gjson.Number {
		return Object{}, &RetryError{Cause: errUnreadable}
	}
	return Object{ID: id.Str, Created: time.Unix(created.Int(), 0).UTC(), Raw: raw}, nil
}

// cursorAfter names an object, and its second, in which the walk goes on if it is gone.
func cursorAfter(o Object) Cursor {
	return Cursor(strconv.FormatInt(o.Created.Unix(), 10) + ":" + o.ID)
}

func (c Cursor) read() (created time.Time, id string, err error) {
	second, id, ok := strings.Cut(string(c), ":")
	unix, err := strconv.ParseInt(second, 10, 64)
	if !ok || err != nil || id == "" {
		return time.Time{}, "", fmt.Errorf("%q is no place in a list", string(c))
	}
	return time.Unix(unix, 0).UTC(), id, nil
}

// Created is the second of the object that the cursor names; zero before the first.
func (c Cursor) Created() time.Time {
	created, _, err := c.read()
	if err != nil {
		return time.Time{}
	}
	return created
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
