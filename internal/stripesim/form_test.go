package stripesim

import (
	"strings"
	"testing"
)

func TestParseForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, form, want string }{
		{"Plain", "a=1&b=x+y%26z", `{"a":"1","b":"x y\u0026z"}`},
		{"Empty", "", `{}`},
		{"EmptyPairs", "&a=1&&", `{"a":"1"}`},
		{"NoValue", "a", `{"a":""}`},
		{"LastWins", "a=1&a=2", `{"a":"2"}`},
		{"Nested", "m[k]=v&m[k 2]=w", `{"m":{"k":"v","k 2":"w"}}`},
		{"Escaped", "m%5Bk%5D=v", `{"m":{"k":"v"}}`},
		{"ListOfTexts", "e[]=a&e[]=b", `{"e":["a","b"]}`},
		{"Indexed", "l[0][q]=1&l[1][q]=2&l[0][p]=3", `{"l":{"0":{"p":"3","q":"1"},"1":{"q":"2"}}}`},
		// A name repeated begins the next item; another name belongs to the same one.
		{"ListOfObjects", "l[][a]=1&l[][b]=2&l[][a]=3&l[][b]=4", `{"l":[{"a":"1","b":"2"},{"a":"3","b":"4"}]}`},
		{
			"ListOfDeepObjects", "l[][p][c]=usd&l[][p][u]=5&l[][q]=1&l[][p][c]=eur",
			`{"l":[{"p":{"c":"usd","u":"5"},"q":"1"},{"p":{"c":"eur"}}]}`,
		},
		{"ListInListItem", "l[][i][]=a&l[][i][]=b", `{"l":[{"i":["a","b"]}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, err := parseForm(c.form)
			if err != nil {
				t.Fatalf("%+v", err)
			}
			if got := n.canonical(); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestParseFormRefuses(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]string{
		"BadEscape":     "a=%zz",
		"BadNameEscape": "%z=1",
		"NoFirstName":   "[a]=1",
		"OpenBracket":   "a[b=1",
		"Trailing":      "a[b]c=1",
		"Stray":         "a]=1",
		"Inner":         "a[b[c]]=1",
		"TextThenBox":   "a=1&a[b]=2",
		"BoxThenText":   "a[b]=2&a=1",
		"ListThenBox":   "a[]=1&a[b]=2",
		"BoxThenList":   "a[b]=2&a[]=1",
		"TooDeep":       "a" + strings.Repeat("[b]", maxDepth) + "=1",
		"TooMany":       strings.Repeat("a[]=1&", maxPairs+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n, err := parseForm(form); err == nil {
				t.Errorf("accepted as %s", n.canonical())
			} else if err.status != 400 || !err.unsaved {
				t.Errorf("%+v", err)
			}
		})
	}
}
