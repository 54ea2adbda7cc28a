package devpg

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress tells a person how far a download is: one line, rewritten on a terminal, and
// otherwise only said when it is done.
type progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time

	resumed     bool // the beginning is from before
	have, total int64
	came        int64 // of have, since started
	started     time.Time
	said        time.Time
}

// sayEvery is often enough to be alive.
const sayEvery = 200 * time.Millisecond

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out, terminal: isTerminal(out), now: time.Now}
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// begin is the start of one answer, of which have bytes came earlier. A server that does not
// say how long its file is has a total of -1.
func (p *progress) begin(have, total int64) {
	p.have, p.total = have, total
	if p.started.IsZero() {
		p.started = p.now()
	}
}

func (p *progress) add(n int64) {
	p.have += n
	p.came += n
	if p.terminal && p.now().Sub(p.said) >= sayEvery {
		p.said = p.now()
		_, _ = fmt.Fprintf(p.out, "\r  %s\x1b[K", p)
	}
}

// end closes the line.
func (p *progress) end() {
	if p.terminal {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	if p.came > 0 {
		p.line("  %s", p)
	}
}

func (p *progress) String() string {
	speed := ""
	if seconds := p.now().Sub(p.started).Seconds(); seconds > 0 {
		speed = fmt.Sprintf("  %.1f MB/s", megabytes(p.came)/seconds)
	}
	if p.total <= 0 {
		return fmt.Sprintf("%.1f MB%s", megabytes(p.have), speed)
	}
	return fmt.Sprintf("%3d%%  %.1f of %.1f MB%s", p.have*100/p.total, megabytes(p.have), megabytes(p.total), speed)
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
