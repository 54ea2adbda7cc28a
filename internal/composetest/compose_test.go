package composetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// dotenv is what "make env" writes.
func dotenv() map[string]string {
	return map[string]string{
		"APP_SECRET": strings.Repeat("a", 64), "LICENSE_SIGNING_KEYS": "k1:" + strings.Repeat("A", 43) + "=",
		"STRIPE_SECRET_KEY": "sk_test_sim", "STRIPE_WEBHOOK_SECRETS": "whsec_sim", "STRIPE_API_BASE": "http://sim:12111",
	}
}

// load reads a Compose file with every profile, as docker compose would.
func load(t *testing.T, text string, env map[string]string) (*types.Project, error) {
	t.Helper()
	details := types.ConfigDetails{
		WorkingDir: tree, Environment: env,
		ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yml", Content: []byte(text)}},
	}
	return loader.LoadWithContext(t.Context(), details, func(o *loader.Options) { o.Profiles = []string{"*"} })
}

// composeFaults says what is wrong with a Compose file: what the specification refuses, two
// services on one port, and variables that the configuration does not know.
func composeFaults(t *testing.T, text string, env map[string]string) []string {
	t.Helper()
	project, err := load(t, text, env)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	taken := map[string]string{}
	known := settings(t)
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		service := project.Services[name]
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				faults = append(faults, fmt.Sprintf("%s publishes port %s beyond this machine", name, port.Published))
			}
			if other := taken[port.Published]; other != "" {
				faults = append(faults, fmt.Sprintf("%s and %s both publish port %s", other, name, port.Published))
			}
			taken[port.Published] = name
		}
		if service.Image != "paidonce" && !strings.Contains(service.Image, ":") {
			faults = append(faults, name+": image without a version")
		}
	}
	given := project.Services["app"].Environment
	for name := range given {
		if !slices.Contains(known, name) {
			faults = append(faults, "app: "+name+" is no setting")
		}
	}
	for _, name := range known {
		if _, passed := given[name]; !passed {
			faults = append(faults, "app is not given "+name)
		}
	}
	return faults
}

func TestCompose(t *testing.T) {
	t.Parallel()
	text := read(t, "docker-compose.yml")
	if faults := composeFaults(t, text, dotenv()); len(faults) > 0 {
		t.Fatalf("docker-compose.yml: %q", faults)
	}
	project, err := load(t, text, dotenv())
	if err != nil {
		t.Fatal(err)
	}
	app := project.Services["app"]
	if app.DependsOn["postgres"].Condition != types.ServiceConditionHealthy || project.Services["postgres"].HealthCheck == nil {
		t.Error("app does not wait for a healthy Postgres")
	}
	for name, profile := range map[string]string{"sim": "sim", "stripe": "stripe"} {
		if !slices.Equal(project.Services[name].Profiles, []string{profile}) {
			t.Errorf("%s is in the profiles %q, want %q alone", name, project.Services[name].Profiles, profile)
		}
	}
	if got := strings.Join(project.Services["stripe"].Command, " "); got != "listen --forward-to http://app:8080/webhooks/stripe" {
		t.Errorf("the Stripe CLI runs %q", got)
	}
	simulated := project.Services["sim"].Command
	if !slices.Contains(simulated, "--webhook-secret="+*app.Environment["STRIPE_WEBHOOK_SECRETS"]) {
		t.Errorf("the simulated Stripe signs with another secret than app knows: %q", simulated)
	}
}

// What .env sets reaches app: all but the two that Compose itself decides.
func TestCompose_PassesEverySetting(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	for _, name := range settings(t) {
		env[name] = "set-" + name
	}
	project, err := load(t, read(t, "docker-compose.yml"), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range settings(t) {
		got, want := project.Services["app"].Environment[name], env[name]
		if own := name == "DATABASE_URL" || name == "ADDR"; own == (got != nil && *got == want) {
			t.Errorf("%s: its own %t, and app is given %v", name, own, got)
		}
	}
	env["SMTP_URL"] = ""
	if project, err = load(t, read(t, "docker-compose.yml"), env); err != nil || *project.Services["app"].Environment["SMTP_URL"] != "" {
		t.Errorf("mail through an API cannot be had: SMTP_URL cannot be unset (%v)", err)
	}
}

// What "make env" writes is what the Compose file asks for.
func TestMakeEnv(t *testing.T) {
	t.Parallel()
	recipe := string(command(t, tree, nil, "make", "-n", "env"))
	for name, value := range dotenv() {
		want := name + "="
		if strings.HasPrefix(value, "http") || strings.HasPrefix(value, "sk_") {
			want += value
		}
		if name != "LICENSE_SIGNING_KEYS" && !strings.Contains(recipe, want) {
			t.Errorf("make env does not write %s:\n%s", want, recipe)
		}
	}
	if !strings.Contains(recipe, "license keygen") || !strings.Contains(recipe, "umask 077") {
		t.Errorf("make env makes no signing key, or shows it to everybody:\n%s", recipe)
	}
}

// A Compose file that is broken is found out.
func TestCompose_Broken(t *testing.T) {
	t.Parallel()
	text := read(t, "docker-compose.yml")
	for name, change := range map[string][3]string{
		"a service without an image":     {"    image: axllent/mailpit:v1.31\n", "", "mailpit"},
		"an image without a version":     {"axllent/mailpit:v1.31", "axllent/mailpit", "mailpit"},
		"an unknown key":                 {"    read_only: true", "    readonly: true", "readonly"},
		"a port that two publish":        {"127.0.0.1:8025:8025", "127.0.0.1:8080:8025", "8080"},
		"a port that everybody reaches":  {"127.0.0.1:8025:8025", "8025:8025", "8025"},
		"a dependency that is not there": {"      mailpit:\n        condition", "      mailer:\n        condition", "mailer"},
		"a variable that is no setting":  {"      SMTP_URL:", "      SMTP_URI:", "SMTP_URI"},
		"a setting that is not passed":   {"      RECONCILE_RATE: ${RECONCILE_RATE:-}\n", "", "RECONCILE_RATE"},
		"an undefined volume":            {"\n  sim:\n", "\n", "sim"},
		"no YAML":                        {"services:\n", "services\n", ""},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("%s: the file has no %q to break", name, change[0])
		}
		at := strings.LastIndex(text, change[0])
		faults := composeFaults(t, text[:at]+change[1]+text[at+len(change[0]):], dotenv())
		if len(faults) == 0 || !strings.Contains(strings.Join(faults, " "), change[2]) {
			t.Errorf("%s: faults %q, want one about %q", name, faults, change[2])
		}
	}
	for _, name := range []string{"APP_SECRET", "LICENSE_SIGNING_KEYS"} {
		env := dotenv()
		delete(env, name)
		if faults := composeFaults(t, text, env); len(faults) == 0 || !strings.Contains(faults[0], name) {
			t.Errorf("without %s in .env: %q, want it named", name, faults)
		}
	}
}

// testComposeEnvironment has the binary read what Compose gives it.
func testComposeEnvironment(t *testing.T, binary string) {
	text := read(t, "docker-compose.yml")
	faults := func(text string) []string {
		project, err := load(t, text, dotenv())
		if err != nil {
			t.Fatal(err)
		}
		env := map[string]string{}
		for name, value := range project.Services["app"].Environment {
			env[name] = *value
		}
		if env["DATABASE_URL"] == "" {
			return []string{"DATABASE_URL"}
		}
		return faultsOfConfiguration(t, binary, env, "serve")
	}
	if got := faults(text); len(got) > 0 {
		t.Errorf("with the environment of app, the configuration has faults: %q", got)
	}
	project, err := load(t, text, dotenv())
	if err != nil {
		t.Fatal(err)
	}
	command(t, ".", nil, binary, append(slices.Clone(project.Services["sim"].Command), "--help")...) // its flags are flags
	for _, name := range []string{"DATABASE_URL", "APP_SECRET", "LICENSE_SIGNING_KEYS", "MAIL_FROM"} {
		at := strings.Index(text, "      "+name+":")
		end := at + strings.Index(text[at:], "\n") + 1
		if got := faults(text[:at] + text[end:]); !slices.Equal(got, []string{name}) {
			t.Errorf("without %s: faults %q, want it", name, got)
		}
	}
}
