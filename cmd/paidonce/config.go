package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
	"paidonce/licenses"
)

// settings are the environment variables as they are written. A variable that is unset or
// blank is not configured.
type settings struct {
	DatabaseURL          string        `env:"DATABASE_URL"`
	Addr                 string        `env:"ADDR"                   envDefault:"127.0.0.1:8080"`
	PublicURL            string        `env:"PUBLIC_URL"`
	AppSecret            string        `env:"APP_SECRET"`
	StripeSecretKey      string        `env:"STRIPE_SECRET_KEY"`
	StripeWebhookSecrets string        `env:"STRIPE_WEBHOOK_SECRETS"`
	StripeAPIBase        string        `env:"STRIPE_API_BASE"`
	StripeAccount        string        `env:"STRIPE_ACCOUNT"`
	StripePromotionCodes bool          `env:"STRIPE_PROMOTION_CODES"`
	StripeAutomaticTax   bool          `env:"STRIPE_AUTOMATIC_TAX"`
	LicenseSigningKeys   string        `env:"LICENSE_SIGNING_KEYS"`
	SMTPURL              string        `env:"SMTP_URL"`
	MailFrom             string        `env:"MAIL_FROM"`
	MailAPIURL           string        `env:"MAIL_API_URL"`
	MailAPIKey           string        `env:"MAIL_API_KEY"`
	MailResend           string        `env:"MAIL_RESEND"            envDefault:"once"`
	WebhookMaxBody       int64         `env:"WEBHOOK_MAX_BODY_BYTES" envDefault:"1048576"`
	WebhookTolerance     time.Duration `env:"WEBHOOK_TOLERANCE"      envDefault:"5m"`
	Workers              int           `env:"WORKERS"                envDefault:"4"`
	DBMaxConns           int32         `env:"DB_MAX_CONNS"           envDefault:"20"`
	WaitForDatabase      time.Duration `env:"WAIT_FOR_DATABASE"      envDefault:"60s"`
	ReconcileEvery       time.Duration `env:"RECONCILE_EVERY"        envDefault:"1h"`
	ReconcileSilence     time.Duration `env:"RECONCILE_SILENCE"      envDefault:"1h"`
	ReconcileRate        int           `env:"RECONCILE_RATE"         envDefault:"10"`
	MetricsToken         string        `env:"METRICS_TOKEN"`
}

// config is the settings, checked and read into what the packages take.
type config struct {
	settings

	webhookSecrets []string
	keyring        licenses.Keyring
	mailer         fulfillment.Mailer // nil: not configured
	warnings       []string
}

// needs says what a command cannot do without.
type needs struct {
	database bool
	web      bool // serves HTTP: needs APP_SECRET
	workers  bool // fulfills: needs LICENSE_SIGNING_KEYS
}

// loadConfig reads the configuration and reports all its faults at once, each with its
// variable. No value of a secret is ever in a fault.
func loadConfig(getenv func(string) string, n needs) (config, error) {
	var c config
	var faults []error
	fault := func(name, format string, args ...any) {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
		faults = append(faults, fmt.Errorf("%s: %s", name, text))
	}

	var unreadable []string
	if err := env.ParseWithOptions(&c.settings, env.Options{Environment: environment(getenv)}); err != nil {
		unreadable = parseFaults(err, fault)
	}

	if n.database && c.DatabaseURL == "" {
		fault("DATABASE_URL", "is required: a Postgres URL, like postgres://user:password@host:5432/paidonce")
	}
	if n.web && c.AppSecret == "" {
		fault("APP_SECRET", "is required to make order tokens: any long random text, like the output of: openssl rand -hex 32")
	}
	if n.web && c.AppSecret != "" && len(c.AppSecret) < 32 {
		c.warnings = append(c.warnings, "APP_SECRET is shorter than 32 characters: order tokens could be guessed")
	}
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		fault("ADDR", "must be HOST:PORT, like 127.0.0.1:8080 or :8080")
	}
	c.checkURLs(fault)
	c.checkStripe(fault)

	var err error
	if c.keyring, err = licenses.ParseKeyring(c.LicenseSigningKeys); err != nil {
		fault("LICENSE_SIGNING_KEYS", "%v", err)
	} else if n.workers && !c.keyring.Configured() {
		fault("LICENSE_SIGNING_KEYS", "is required to issue licenses; make one with: paidonce license keygen")
	}
	c.checkMail(fault)
	for _, number := range []struct {
		name  string
		value int64
	}{
		{"WEBHOOK_MAX_BODY_BYTES", c.WebhookMaxBody},
		{"WEBHOOK_TOLERANCE", int64(c.WebhookTolerance)},
		{"WORKERS", int64(c.Workers)},
		{"DB_MAX_CONNS", int64(c.DBMaxConns)},
		{"RECONCILE_SILENCE", int64(c.ReconcileSilence)},
		{"RECONCILE_RATE", int64(c.ReconcileRate)},
	} {
		if number.value <= 0 && !slices.Contains(unreadable, number.name) {
			fault(number.name, "must be more than zero")
		}
	}
	if c.WaitForDatabase < 0 {
		fault("WAIT_FOR_DATABASE", "must not be less than zero")
	}
	if c.ReconcileEvery != 0 && c.ReconcileEvery < minReconcileEvery && !slices.Contains(unreadable, "RECONCILE_EVERY") {
		fault("RECONCILE_EVERY", "must be at least %s, or 0 for never", minReconcileEvery)
	}
	if c.MetricsToken != "" && len(c.MetricsToken) < 16 {
		c.warnings = append(c.warnings, "METRICS_TOKEN is shorter than 16 characters: it could be guessed")
	}
	if c.WebhookMaxBody > maxWebhookBody {
		fault("WEBHOOK_MAX_BODY_BYTES", "must be at most %d: reading JSON that is nested that deep needs the stack of the whole process", maxWebhookBody)
	}
	if len(faults) > 0 {
		return config{}, fmt.Errorf("the configuration has %s:\n%w", counted(len(faults), "fault", "faults"), errors.Join(faults...))
	}
	return c, nil
}

// minReconcileEvery bounds RECONCILE_EVERY: a run costs the provider some requests, and
// looks at every order.
const minReconcileEvery = time.Minute

// maxWebhookBody bounds WEBHOOK_MAX_BODY_BYTES: 4 MiB is ten times the largest event seen.
const maxWebhookBody = 4 << 20

// environment is what env parses: the variables we know, without blanks around them.
func environment(getenv func(string) string) map[string]string {
	params, err := env.GetFieldParams(&settings{})
	if err != nil {
		panic("bug: the settings struct is not parseable: " + err.Error())
	}
	set := map[string]string{}
	for _, p := range params {
		if value := strings.TrimSpace(getenv(p.Key)); value != "" {
			set[p.Key] = value
		}
	}
	return set
}

// parseFaults names the variable behind each of env's errors, without its value, and returns
// the names.
func parseFaults(err error, fault func(name, format string, args ...any)) []string {
	var all env.AggregateError
	if !errors.As(err, &all) {
		fault("environment", "%v", err)
		return nil
	}
	var names []string
	for _, one := range all.Errors {
		var bad env.ParseError
		if !errors.As(one, &bad) {
			fault("environment", "%v", one)
			continue
		}
		field, _ := reflect.TypeFor[settings]().FieldByName(bad.Name)
		name := field.Tag.Get("env")
		fault(name, "is not a %s", readable(bad.Type))
		names = append(names, name)
	}
	return names
}

func readable(kind reflect.Type) string {
	if kind == reflect.TypeFor[time.Duration]() {
		return "duration, like 5m or 90s"
	}
	if kind.Kind() == reflect.Bool {
		return "yes or no: true or false"
	}
	return "whole number"
}

func (c *config) checkURLs(fault func(name, format string, args ...any)) {
	if c.PublicURL == "" {
		c.PublicURL = "http://" + reachable(c.Addr)
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	for _, set := range [][2]string{{"PUBLIC_URL", c.PublicURL}, {"STRIPE_API_BASE", c.StripeAPIBase}} {
		name, value := set[0], set[1]
		if u, err := url.Parse(value); value != "" && (err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https")) {
			fault(name, "must be a URL, like https://shop.example.com")
		}
	}
}

// reachable is an address to listen on, as a browser on this machine would write it: ":8080"
// listens everywhere and leads nowhere.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}

func (c *config) checkStripe(fault func(name, format string, args ...any)) {
	var err error
	if c.webhookSecrets, err = list(c.StripeWebhookSecrets); err != nil {
		fault("STRIPE_WEBHOOK_SECRETS", "%v", err)
	}
	key := c.StripeSecretKey
	if key != "" && !strings.HasPrefix(key, "sk_") && !strings.HasPrefix(key, "rk_") {
		fault("STRIPE_SECRET_KEY", "must begin with sk_ or rk_ (a publishable key cannot be used here)")
	}
	if key != "" && provider.Livemode(key) && c.StripeAPIBase != "" {
		c.warnings = append(c.warnings, "STRIPE_API_BASE is set together with a live key: real payments go through "+c.StripeAPIBase)
	}
	if key == "" && len(c.webhookSecrets) > 0 {
		c.warnings = append(c.warnings, "STRIPE_SECRET_KEY is not set: events are taken, but no order can be made and nothing can be read from Stripe")
	}
	if key != "" && len(c.webhookSecrets) == 0 {
		c.warnings = append(c.warnings, "STRIPE_WEBHOOK_SECRETS is not set: /webhooks/stripe answers 503, and payments will not be seen")
	}
	if c.oddSecrets() {
		c.warnings = append(c.warnings, "STRIPE_WEBHOOK_SECRETS has a value that does not begin with whsec_: it is no signing secret of an endpoint, and what Stripe sends will be refused")
	}
}

// oddSecrets tells whether one of the webhook secrets is none that Stripe would have made: an
// API key, or an endpoint's id, in its place.
func (c *config) oddSecrets() bool {
	return slices.ContainsFunc(c.webhookSecrets, func(secret string) bool { return !strings.HasPrefix(secret, "whsec_") })
}

func (c *config) checkMail(fault func(name, format string, args ...any)) {
	if policy := fulfillment.Resend(c.MailResend); policy != fulfillment.ResendOnce && policy != fulfillment.ResendNever {
		fault("MAIL_RESEND", "must be once or never: what follows when nobody knows whether a mail went out")
	}
	switch {
	case c.SMTPURL != "" && c.MailAPIKey != "":
		fault("MAIL_API_KEY", "is set together with SMTP_URL; mail goes one way or the other")
	case c.SMTPURL != "":
		c.useSMTP(fault)
	case c.MailAPIKey != "":
		c.useMailAPI(fault)
	case c.MailAPIURL != "":
		fault("MAIL_API_KEY", "is required when MAIL_API_URL is set")
	default:
		return
	}
	if c.MailFrom == "" {
		fault("MAIL_FROM", "is required when SMTP_URL or MAIL_API_KEY is set; it is the sender of receipts, like Shop <receipts@example.com>")
	} else if _, err := mail.ParseAddress(c.MailFrom); err != nil {
		fault("MAIL_FROM", "is not an address, like Shop <receipts@example.com>")
	}
}

func (c *config) useSMTP(fault func(name, format string, args ...any)) {
	smtp, err := fulfillment.ParseSMTP(c.SMTPURL)
	if err != nil {
		fault("SMTP_URL", "%v", err)
		return
	}
	c.mailer = smtp
	if c.MailAPIURL != "" {
		c.warnings = append(c.warnings, "MAIL_API_URL is set together with SMTP_URL, and not used")
	}
}

func (c *config) useMailAPI(fault func(name, format string, args ...any)) {
	base := c.MailAPIURL
	if base == "" {
		base = fulfillment.DefaultMailAPI
	}
	api, err := fulfillment.NewMailAPI(base, c.MailAPIKey)
	if err != nil {
		fault("MAIL_API_URL", "%v", err)
		return
	}
	if strings.ContainsFunc(c.MailAPIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		fault("MAIL_API_KEY", "has characters that no header takes")
		return
	}
	c.mailer = api
}

// mailInto has mails written into a folder instead of sent.
func (c *config) mailInto(dir string) error {
	if dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("--mail-dir: %s is not a folder", dir)
	}
	c.mailer = fulfillment.Folder{Dir: dir}
	if c.MailFrom == "" {
		c.MailFrom = "paidonce@localhost"
	}
	return nil
}

// errEmptyElement is a list with nothing between two commas. It is a fault and not an empty
// secret: nothing is ever verified with an empty key (I11).
var errEmptyElement = errors.New("has an empty element; separate the values with single commas")

// list splits a comma-separated value; a blank one is no list.
func list(value string) ([]string, error) {
	if value == "" {
		return nil, nil
	}
	var all []string
	for element := range strings.SplitSeq(value, ",") {
		element = strings.TrimSpace(element)
		if element == "" {
			return nil, errEmptyElement
		}
		all = append(all, element)
	}
	return all, nil
}

// LogValue is what a log may say of a configuration: which parts are configured, and no
// secret.
func (c config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("addr", c.Addr), slog.String("public_url", c.PublicURL),
		slog.Bool("stripe", c.StripeSecretKey != ""), slog.Bool("stripe_live", provider.Livemode(c.StripeSecretKey)),
		slog.Int("stripe_webhook_secrets", len(c.webhookSecrets)), slog.String("stripe_account", c.StripeAccount),
		slog.Any("license_keys", c.keyring), slog.Bool("mail", c.mailer != nil), slog.String("mail_resend", c.MailResend),
		slog.Int("workers", c.Workers), slog.Int("db_max_conns", int(c.DBMaxConns)),
	)
}
