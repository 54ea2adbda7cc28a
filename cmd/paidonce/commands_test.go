package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/stripesim"
	"paidonce/migrations"
)

func TestMigrate_UpStatusDown(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": devpgtest.NewEmpty(t)}
	all := int(migrations.Newest())

	code, out, errs := command(t, env, "", "migrate", "status")
	if code != 0 || strings.Count(out, "pending") != all {
		t.Fatalf("status of an empty database = %d\n%s%s, want %d pending", code, out, errs, all)
	}
	if code, out, errs = command(t, env, "", "migrate", "up"); code != 0 || strings.Count(out, "applied ") != all {
		t.Fatalf("up = %d\n%s%s, want %d applied", code, out, errs, all)
	}
	if code, out, _ = command(t, env, "", "migrate", "up"); code != 0 || strings.Contains(out, "applied ") {
		t.Errorf("a second up = %d\n%s, want nothing applied", code, out)
	}
	code, out, errs = command(t, env, "", "migrate", "down")
	if want := fmt.Sprintf("migration %05d", all); code != 1 || out != "" || !strings.Contains(errs, want) || !strings.Contains(errs, "--yes") {
		t.Errorf("down without --yes = %d\n%s%s, want it refused, and %s named", code, out, errs, want)
	}
	if _, out, _ = command(t, env, "", "migrate", "status"); strings.Contains(out, "pending") {
		t.Errorf("status after a down that was refused:\n%s, want nothing pending", out)
	}
	if code, out, _ = command(t, env, "", "migrate", "down", "--yes"); code != 0 || !strings.Contains(out, "took back") {
		t.Errorf("down = %d\n%s, want one taken back", code, out)
	}
	if _, out, _ = command(t, env, "", "migrate", "status"); strings.Count(out, "pending") != 1 {
		t.Errorf("status after a down:\n%s, want one pending", out)
	}
}

func TestProductsImport(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": devpgtest.NewEmpty(t)}
	file := filepath.Join(t.TempDir(), "products.csv")
	if err := os.WriteFile(file, []byte("sku,name,unit_minor,currency\nA,\"One, two\",1999,USD\nB,Yen,100,jpy\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	// On an empty database: the command brings the schema along.
	code, out, errs := command(t, env, "", "products", "import", file)
	if code != 0 || !strings.Contains(out, "19.99 USD") || !strings.Contains(out, "100 JPY") || !strings.Contains(out, "Imported: 2.") {
		t.Fatalf("import = %d\n%s%s", code, out, errs)
	}
	code, _, errs = command(t, env, `[{"sku":"","name":"x","unit_minor":1.5,"currency":"xxx"}]`, "products", "import", "-")
	if code != 1 || !strings.Contains(errs, "sku") || !strings.Contains(errs, "unit_minor") || !strings.Contains(errs, "currency") {
		t.Errorf("import of faults = %d\n%s, want each field named", code, errs)
	}
	if code, _, errs = command(t, env, "", "products", "import", file+".none"); code != 1 || !strings.Contains(errs, ".none") {
		t.Errorf("import of no file = %d\n%s, want the file named", code, errs)
	}
}

// The products of docs/make-it-yours.md are a file that import takes.
func TestProductsImport_OfThePage(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": devpgtest.NewEmpty(t)}
	files := blocks(read(t, repo+"/docs/make-it-yours.md"), "csv")
	if len(files) != 1 {
		t.Fatalf("the page has %d files of products", len(files))
	}
	code, out, errs := command(t, env, files[0], "products", "import", "-")
	if code != 0 || !strings.Contains(out, "49.00 EUR") || !strings.Contains(out, "Imported: 2.") {
		t.Errorf("import = %d\n%s%s", code, out, errs)
	}
}

// The line that keygen prints is what the environment takes, in exactly this form.
func TestLicense_KeygenThenVerify(t *testing.T) {
	t.Parallel()
	code, line, _ := command(t, nil, "", "license", "keygen")
	if code != 0 || !regexp.MustCompile(`^LICENSE_SIGNING_KEYS=[0-9a-f]{8}:[A-Za-z0-9+/]{43}=\n$`).MatchString(line) {
		t.Fatalf("keygen = %d %q", code, line)
	}
	env := map[string]string{"LICENSE_SIGNING_KEYS": strings.TrimSpace(strings.SplitN(line, "=", 2)[1])}
	cfg, err := load(env, needs{workers: true})
	if err != nil {
		t.Fatalf("the printed line is not taken: %v", err)
	}
	key, kid, err := cfg.keyring.Sign(claimsForTest(t))
	if err != nil {
		t.Fatal(err)
	}

	code, out, errs := command(t, env, "", "license", "verify", key)
	var claims map[string]any
	if err := json.Unmarshal([]byte(out), &claims); code != 0 || err != nil || claims["kid"] != string(kid) || claims["sku"] != "KEY-1" {
		t.Errorf("verify = %d %s%s %v", code, out, errs, err)
	}
	code, public, _ := command(t, env, "", "license", "public")
	_, public, _ = strings.Cut(strings.TrimSpace(public), " ")
	if code != 0 || public != cfg.keyring.PublicKeys()[0].Hex() {
		t.Errorf("public = %d %q", code, public)
	}
	if code, _, errs = command(t, nil, "", "license", "verify", "--public-key", public, key); code != 0 {
		t.Errorf("verify with the public half alone = %d %s", code, errs)
	}

	forged := key[:len(key)-6] + "AAAA=="
	for _, bad := range []string{forged, "", "key/", "key/x.y", strings.Replace(key, "key/", "", 1)} {
		if code, out, errs = command(t, env, "", "license", "verify", bad); code != 1 || out != "" || errs == "" {
			t.Errorf("verify of %.20q = %d %q %q, want 1 and a reason", bad, code, out, errs)
		}
	}
	if code, _, errs = command(t, nil, "", "license", "verify", key); code != 1 || !strings.Contains(errs, "LICENSE_SIGNING_KEYS") {
		t.Errorf("verify without a key to verify with = %d %s", code, errs)
	}
}

func TestSim_RefusesHalfOfAWebhook(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"sim", "--webhook-url", "http://127.0.0.1:1/x"},
		{"sim", "--webhook-secret", "whsec_x"},
		{"sim", "--webhook-url", "nowhere", "--webhook-secret", "whsec_x"},
		{"sim", "--webhook-url", "http://127.0.0.1:1/x", "--webhook-secret", ""},
		{"sim", "--webhook-url", "http://127.0.0.1:1/x", "--webhook-secret", "whsec_x,,whsec_y"},
	} {
		if code, _, errs := command(t, nil, "", args...); code != 1 || !strings.Contains(errs, "--webhook-") {
			t.Errorf("%v = %d %s, want 1 and the flag named", args, code, errs)
		}
	}
}

// STRIPE_WEBHOOK_SECRETS is a list, and is given to sim as it is: each of it signs.
func TestSim_SignsWithEachSecret(t *testing.T) {
	t.Parallel()
	const to = "http://127.0.0.1:1/webhooks/stripe"
	for _, given := range [][]string{{"whsec_a,whsec_b"}, {"whsec_a", " whsec_b "}} {
		got, err := simWebhooks(to, given)
		if want := []stripesim.Endpoint{{URL: to, Secrets: []string{"whsec_a", "whsec_b"}}}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("of %q: %+v %v, want %+v", given, got, err, want)
		}
	}
}

func TestWork_RefusesAnUnknownQueue(t *testing.T) {
	t.Parallel()
	if code, _, errs := command(t, complete(), "", "work", "--queue", "nope"); code != 1 || !strings.Contains(errs, `"nope"`) {
		t.Errorf("work --queue nope = %d %s, want 1 and the queue named", code, errs)
	}
}

// Every command says what it is for.
func TestHelp(t *testing.T) {
	t.Parallel()
	_, root, _ := command(t, nil, "", "--help")
	for _, name := range []string{"serve", "work", "demo", "sim", "migrate", "products", "orders", "deliveries", "jobs", "license", "stripe", "health", "version", "completion"} {
		if !strings.Contains(root, "\n  "+name+" ") {
			t.Errorf("--help does not list %s:\n%s", name, root)
		}
		if code, out, _ := command(t, nil, "", name, "--help"); code != 0 || len(out) < 80 || strings.Contains(out, "crash-at") {
			t.Errorf("%s --help = %d\n%s", name, code, out)
		}
	}
}

// A misspelt command must not pass for a success in a deploy script.
func TestMisspeltCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"migrat"}, {"migrate", "upp"}, {"products", "imprt"}, {"license", "keygn"}, {"stripe", "setpu"}, {"deliveries", "lst"}, {"jobs", "rety"}} {
		if code, _, errs := command(t, nil, "", args...); code != 1 || !strings.Contains(errs, args[len(args)-1]) {
			t.Errorf("%v = %d %s, want 1 and the word named", args, code, errs)
		}
	}
}
