package orders

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TruthRow is a row of the truth table in Target's doc comment.
type TruthRow struct {
	Number                               int
	Payments, Decision, Licenses, Target string
}

// TruthTable reads the table out of the comment, so that tests and docs/states.md are held
// to what a reader of the code is told.
func TruthTable(tb testing.TB) []TruthRow {
	tb.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "target.go", nil, parser.ParseComments)
	if err != nil {
		tb.Fatal(err)
	}
	var doc string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Target" {
			doc = f.Doc.Text()
		}
	}
	columns := regexp.MustCompile(`\s{2,}`)
	var rows []TruthRow
	for line := range strings.Lines(doc) {
		cells := columns.Split(strings.TrimSpace(line), -1)
		number, err := strconv.Atoi(cells[0])
		if err != nil || len(cells) != 5 {
			continue
		}
		rows = append(rows, TruthRow{number, cells[1], cells[2], cells[3], cells[4]})
	}
	return rows
}
