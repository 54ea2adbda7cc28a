package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// complete is a configuration without faults.
func complete() map[string]string {
	return map[string]string{
		"DATABASE_URL":           "postgres://u:hunter2@127.0.0.1/db",
		"APP_SECRET":             strings.Repeat("a", 32) + "app-secret",
		"STRIPE_SECRET_KEY":      "sk_test_secretkey",
		"STRIPE_WEBHOOK_SECRETS": "whsec_one,whsec_two",
		"LICENSE_SIGNING_KEYS":   "k1:" + strings.Repeat("A", 43) + "=",
		"SMTP_URL":               "smtp://user:mailpassword@127.0.0.1:25",
		"MAIL_FROM":              "Shop <a@example.com>",
	}
}

// throughMailAPI has mail go through a mail API.
func throughMailAPI(env map[string]string) map[string]string {
	delete(env, "SMTP_URL")
	env["MAIL_API_KEY"] = "re_mailapikey"
	return env
}

func everything() needs { return needs{database: true, web: true, workers: true} }

func load(env map[string]string, n needs) (config, error) {
	return loadConfig(func(name string) string { return env[name] }, n)
}

func TestConfig_IsReadWhole(t *testing.T) {
	t.Parallel()
	c, err := load(complete(), everything())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(c.webhookSecrets), "[whsec_one whsec_two]"; got != want {
		t.Errorf("webhook secrets = %s, want %s", got, want)
	}
	if got, want := c.PublicURL, "http://127.0.0.1:8080"; got != want {
		t.Errorf("PublicURL = %q, want %q from ADDR", got, want)
	}
	if c.mailer == nil || !c.keyring.Configured() || len(c.warnings) != 0 {
		t.Errorf("mailer %v, keyring %v, warnings %q: want both configured and no warning", c.mailer, c.keyring, c.warnings)
	}
}

// A person who mends one fault at a time starts the process eight times; all of them are
// named at once.
func TestConfig_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := load(map[string]string{
		"ADDR": "8080", "PUBLIC_URL": "shop", "STRIPE_SECRET_KEY": "pk_test_public", "STRIPE_WEBHOOK_SECRETS": "whsec_a,,whsec_b",
		"LICENSE_SIGNING_KEYS": "nokey", "SMTP_URL": "mail.example.com", "MAIL_RESEND": "twice", "WORKERS": "many", "DB_MAX_CONNS": "-1",
		"WEBHOOK_TOLERANCE": "five", "WEBHOOK_MAX_BODY_BYTES": "0",
	}, everything())
	if err == nil {
		t.Fatal("a configuration full of faults was taken")
	}
	for _, name := range []string{
		"DATABASE_URL", "APP_SECRET", "ADDR", "PUBLIC_URL", "STRIPE_SECRET_KEY", "STRIPE_WEBHOOK_SECRETS", "LICENSE_SIGNING_KEYS",
		"SMTP_URL", "MAIL_FROM", "MAIL_RESEND", "WORKERS", "DB_MAX_CONNS", "WEBHOOK_TOLERANCE", "WEBHOOK_MAX_BODY_BYTES",
	} {
		if n := strings.Count(err.Error(), name+": "); n != 1 {
			t.Errorf("%s is named %d times, want once in:\n%v", name, n, err)
		}
	}
}

// I11: blank is not configured; nothing between two commas is a fault, never an empty secret.
func TestConfig_BlankIsNotConfigured(t *testing.T) {
	t.Parallel()
	for _, blank := range []string{"", " ", "\t"} {
		env := complete()
		env["STRIPE_WEBHOOK_SECRETS"], env["SMTP_URL"], env["STRIPE_SECRET_KEY"] = blank, blank, blank
		c, err := load(env, everything())
		if err != nil {
			t.Fatalf("blank %q: %v", blank, err)
		}
		if len(c.webhookSecrets) != 0 || c.mailer != nil {
			t.Errorf("blank %q: secrets %d, mailer %v; want none", blank, len(c.webhookSecrets), c.mailer)
		}
	}
	for _, holed := range []string{",", "whsec_a,", ",whsec_a", "whsec_a, ,whsec_b"} {
		env := complete()
		env["STRIPE_WEBHOOK_SECRETS"] = holed
		if _, err := load(env, everything()); err == nil {
			t.Errorf("%q was taken; an empty element must be a fault", holed)
		}
	}
}

func TestConfig_NeverShowsASecret(t *testing.T) {
	t.Parallel()
	secrets := []string{"hunter2", "app-secret", "secretkey", "whsec_one", "whsec_two", strings.Repeat("A", 43), "mailpassword", "mailapikey"}
	var log strings.Builder
	for _, env := range []map[string]string{complete(), throughMailAPI(complete())} {
		c, err := load(env, everything())
		if err != nil {
			t.Fatal(err)
		}
		slog.New(slog.NewJSONHandler(&log, nil)).Info("configuration", "config", c)
	}

	// And with every variable at fault at once.
	broken := complete()
	broken["MAIL_API_KEY"] = "re_mailapikey"
	for name, value := range broken {
		broken[name] = value + ",,\x00broken"
	}
	broken["ADDR"] = "x"
	_, err := load(broken, everything())
	if err == nil {
		t.Fatal("a broken configuration was taken")
	}
	for _, secret := range secrets {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log shows %q: %s", secret, log.String())
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("a fault shows %q: %v", secret, err)
		}
	}
}

func TestConfig_WarnsOfWhatIsLegalAndOdd(t *testing.T) {
	t.Parallel()
	for label, change := range map[string]func(map[string]string){
		"APP_SECRET":             func(e map[string]string) { e["APP_SECRET"] = "short" },
		"STRIPE_SECRET_KEY":      func(e map[string]string) { delete(e, "STRIPE_SECRET_KEY") },
		"STRIPE_WEBHOOK_SECRETS": func(e map[string]string) { delete(e, "STRIPE_WEBHOOK_SECRETS") },
		"STRIPE_WEBHOOK_SECRETS, with an endpoint's id among them": func(e map[string]string) {
			e["STRIPE_WEBHOOK_SECRETS"] = "whsec_one,we_1"
		},
		"MAIL_API_URL": func(e map[string]string) { e["MAIL_API_URL"] = "https://mail.example.com" },
		"STRIPE_API_BASE": func(e map[string]string) {
			e["STRIPE_SECRET_KEY"], e["STRIPE_API_BASE"] = "sk_live_x", "http://127.0.0.1:1"
		},
	} {
		env := complete()
		name, _, _ := strings.Cut(label, ",")
		change(env)
		c, err := load(env, everything())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(c.warnings) != 1 || !strings.HasPrefix(c.warnings[0], name) {
			t.Errorf("%s: warnings %q, want one that names it", name, c.warnings)
		}
	}
}

// What one command needs, another does not: only serve makes tokens, only workers sign.
func TestConfig_NeedsAreTheCommands(t *testing.T) {
	t.Parallel()
	if _, err := load(map[string]string{}, needs{}); err != nil {
		t.Errorf("nothing needed, nothing set: %v", err)
	}
	for _, c := range []struct {
		needs needs
		names []string
		not   []string
	}{
		{needs{database: true}, []string{"DATABASE_URL"}, []string{"APP_SECRET", "LICENSE_SIGNING_KEYS"}},
		{needs{web: true}, []string{"APP_SECRET"}, []string{"DATABASE_URL", "LICENSE_SIGNING_KEYS"}},
		{needs{workers: true}, []string{"LICENSE_SIGNING_KEYS"}, []string{"DATABASE_URL", "APP_SECRET"}},
	} {
		_, err := load(map[string]string{}, c.needs)
		if err == nil {
			t.Errorf("%+v: no fault, want %v", c.needs, c.names)
			continue
		}
		for _, name := range c.names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%+v: %v does not name %s", c.needs, err, name)
			}
		}
		for _, name := range c.not {
			if strings.Contains(err.Error(), name) {
				t.Errorf("%+v: %v names %s, which is not needed", c.needs, err, name)
			}
		}
	}
}

// Mail goes one way: over SMTP, or through a mail API. Half a configuration is a fault.
func TestConfig_MailGoesOneWay(t *testing.T) {
	t.Parallel()
	const key, sender = "re_mailkey", "Shop <a@example.com>"
	for name, tt := range map[string]struct {
		set   map[string]string
		fault string // the variable that is named; "": none is
		mails bool
	}{
		"neither":          {map[string]string{}, "", false},
		"SMTP":             {map[string]string{"SMTP_URL": "smtp://127.0.0.1", "MAIL_FROM": sender}, "", true},
		"API":              {map[string]string{"MAIL_API_KEY": key, "MAIL_FROM": sender}, "", true},
		"API elsewhere":    {map[string]string{"MAIL_API_KEY": key, "MAIL_API_URL": "http://127.0.0.1:8005", "MAIL_FROM": sender}, "", true},
		"both":             {map[string]string{"SMTP_URL": "smtp://127.0.0.1", "MAIL_API_KEY": key, "MAIL_FROM": sender}, "MAIL_API_KEY", false},
		"API without key":  {map[string]string{"MAIL_API_URL": "https://mail.example.com", "MAIL_FROM": sender}, "MAIL_API_KEY", false},
		"API and nobody":   {map[string]string{"MAIL_API_KEY": key}, "MAIL_FROM", false},
		"API of no URL":    {map[string]string{"MAIL_API_KEY": key, "MAIL_API_URL": "mail.example.com", "MAIL_FROM": sender}, "MAIL_API_URL", false},
		"key of two lines": {map[string]string{"MAIL_API_KEY": key + "\nX: y", "MAIL_FROM": sender}, "MAIL_API_KEY", false},
		"sometimes":        {map[string]string{"MAIL_RESEND": "sometimes"}, "MAIL_RESEND", false},
		"never":            {map[string]string{"MAIL_RESEND": "never"}, "", false},
	} {
		c, err := load(tt.set, needs{})
		if (err != nil) != (tt.fault != "") || err != nil && !strings.Contains(err.Error(), tt.fault+": ") {
			t.Errorf("%s: %v, want a fault of %q", name, err, tt.fault)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("%s: the fault tells the key: %v", name, err)
		}
		if (c.mailer != nil) != tt.mails {
			t.Errorf("%s: mailer %v", name, c.mailer)
		}
	}
	if c, err := load(map[string]string{}, needs{}); err != nil || c.MailResend != "once" {
		t.Errorf("by default: %q, %v; want once", c.MailResend, err)
	}
}
