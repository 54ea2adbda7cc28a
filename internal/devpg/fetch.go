package devpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// maxJar bounds a download: ten times the largest jar.
	maxJar = 256 << 20

	// stallTime is how long a connection may bring nothing.
	stallTime = 30 * time.Second

	// fetchAttempts is how often in a row a download may fail without bringing anything new.
	fetchAttempts = 4
)

// errSum is a file that is not the one whose sum is in the code.
var errSum = errors.New("wrong checksum")

// errStalled is a connection that is open and brings nothing.
var errStalled = errors.New("nothing came for " + stallTime.String())

// refusal is an answer that the next attempt would get again.
type refusal struct{ status string }

func (r refusal) Error() string { return "the server answered " + r.status }

// download brings one file, and goes on where an earlier attempt, or an earlier process,
// stopped: what has come is in the part file.
type download struct {
	client *http.Client
	url    string
	sum    string
	part   string // the file being written; beside it .etag, what the server called it
	tell   *progress
	pause  time.Duration // before the second attempt, doubled before each further one
}

// newClient has a limit for every step and none for the whole: a slow line is no fault.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: stallTime,
	}}
}

// run returns when the part file is whole and has the right sum. It leaves a part file that a
// later run can go on with, unless that is wrong or the disk is full.
func (d *download) run(ctx context.Context) error {
	if checkSum(d.part, d.sum) == nil {
		return nil // what came after the download was killed
	}
	err := d.whole(ctx)
	if errors.Is(err, errSum) && d.tell.resumed {
		// The beginning came from another day; it may be what is wrong.
		d.tell.resumed = false
		err = d.whole(ctx)
	}
	return err
}

// whole downloads and compares.
func (d *download) whole(ctx context.Context) error {
	err := d.insist(ctx)
	if err == nil {
		err = checkSum(d.part, d.sum)
	}
	if errors.Is(err, errSum) || fullDisk(err) {
		return errors.Join(err, d.discard())
	}
	return err
}

// insist tries until the file is whole, the server refuses, or several attempts in a row
// brought nothing.
func (d *download) insist(ctx context.Context) error {
	pause, failures := d.pause, 0
	for {
		before := d.have()
		err := d.attempt(ctx)
		var refused refusal
		if err == nil || ctx.Err() != nil || errors.As(err, &refused) || fullDisk(err) {
			return err
		}
		if failures++; d.have() > before {
			pause, failures = d.pause, 1
		}
		if failures == fetchAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// attempt is one request, from where the part file ends.
func (d *download) attempt(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, http.NoBody)
	if err != nil {
		return err
	}
	have := d.have()
	if tag := d.tag(); have > 0 && tag != "" {
		// If-Range: another file under the same name is sent whole, not appended to this one.
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		request.Header.Set("If-Range", tag)
	}
	response, err := d.client.Do(request)
	if about := new(url.Error); errors.As(err, &about) {
		return about.Err // the address is said once, by whoever tells of this
	}
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()

	flags, err := d.begin(response, have)
	if err != nil {
		return err
	}
	part, err := os.OpenFile(d.part, flags, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, part.Close()) }()
	body := &watched{from: io.LimitReader(response.Body, maxJar), stall: func() { cancel(errStalled) }, tell: d.tell}
	defer body.end()
	_, err = io.Copy(part, body)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// begin reads the answer's head: does the file start anew, or go on?
func (d *download) begin(response *http.Response, have int64) (flags int, err error) {
	const anew, on = os.O_CREATE | os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND
	switch {
	case response.StatusCode == http.StatusPartialContent &&
		strings.HasPrefix(response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
		d.tell.resumed = true
		total := int64(-1)
		if response.ContentLength >= 0 {
			total = have + response.ContentLength
		}
		d.tell.begin(have, total)
		return on, nil
	case response.StatusCode == http.StatusOK:
		d.tell.begin(0, response.ContentLength)
		return anew, d.keepTag(response.Header.Get("ETag"))
	case response.StatusCode == http.StatusRequestedRangeNotSatisfiable, response.StatusCode == http.StatusPartialContent:
		// The part file is no beginning of what is there.
		return 0, errors.Join(errors.New("the server could not go on where the download had stopped"), d.discard())
	case response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError:
		return 0, fmt.Errorf("the server answered %s", response.Status)
	}
	return 0, refusal{response.Status}
}

// have is how much has come.
func (d *download) have() int64 {
	info, err := os.Stat(d.part)
	if err != nil {
		return 0
	}
	return info.Size()
}

// tag is what the server called the file that the part file is the beginning of.
func (d *download) tag() string {
	tag, err := os.ReadFile(d.part + ".etag")
	if err != nil {
		return ""
	}
	return string(tag)
}

// keepTag notes the tag before the first byte. A weak one does not promise the same bytes.
func (d *download) keepTag(tag string) error {
	if tag == "" || strings.HasPrefix(tag, "W/") {
		return removeIfThere(d.part + ".etag")
	}
	return os.WriteFile(d.part+".etag", []byte(tag), 0o600)
}

func (d *download) discard() error {
	return errors.Join(removeIfThere(d.part), removeIfThere(d.part+".etag"))
}

// watched reads a body, tells how far it is, and ends it when nothing comes.
type watched struct {
	from  io.Reader
	stall func()
	tell  *progress
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	if w.timer == nil {
		w.timer = time.AfterFunc(stallTime, w.stall)
	}
	n, err := w.from.Read(p)
	w.timer.Reset(stallTime)
	w.tell.add(int64(n))
	return n, err
}

func (w *watched) end() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

func checkSum(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("%w: SHA-256 is %s, and must be %s", errSum, got, want)
	}
	return nil
}

// fullDisk reports whether there was no room: on the disk, in a quota, or in the size that a
// file may have.
func fullDisk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func closeAndRemove(f *os.File) error { return errors.Join(f.Close(), os.Remove(f.Name())) }
