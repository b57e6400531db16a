package command

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/testutil"
)

var update = flag.Bool("update", false, "write what is printed into docs/three-machines.md")

const threeMachines = "../../../docs/three-machines.md"

// TestThreeMachines runs the page's commands one by one, and compares what they print with the
// page. Machines are folders here, on addresses of loopback. scp copies between them, and ports are
// free ports. Only things that must vary may differ: keys and names that follow from them (one for
// one), times and durations.
func TestThreeMachines(t *testing.T) {
	long(t)
	p := newPage(t)
	p.plays(threeMachines, "")
}

// plays runs the commands of a page from a heading to the next of the same level, or of all of it. With -update it writes what is printed.
func (p *page) plays(path, heading string) {
	p.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), heading)
	if !found {
		p.t.Fatalf("%s has no %q", path, heading)
	}
	after := len(rest)
	if at := strings.Index(rest, "\n## "); heading != "" && at >= 0 {
		after = at
	}
	var out []string
	for _, part := range parsePage(rest[:after]) {
		if part.entry != nil {
			p.play(part.entry)
			part.lines = part.entry.lines()
		}
		out = append(out, part.lines...)
	}
	p.ended()
	if *update {
		if err = os.WriteFile(path, []byte(before+heading+strings.Join(out, "\n")+rest[after:]), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// part is a piece of a page: text, or an entry.
type part struct {
	lines []string
	entry *entry
}

// entry is a command and what it prints, or more of what a terminal shows.
type entry struct {
	terminal string   // of a process that keeps running, or ""
	machine  string   // "" where no command begins
	command  []string // its lines, as they are written
	shown    []string
	more     bool // "..." follows
}

var prompt = regexp.MustCompile(`^(operator|agg|server|users|north|south|west|east|shops)\$ (.*)$`)

func (e *entry) lines() []string {
	var out []string
	for i, line := range e.command {
		if i == 0 {
			line = e.machine + "$ " + line
		}
		out = append(out, line)
	}
	out = append(out, e.shown...)
	if e.more {
		out = append(out, "...")
	}
	return out
}

// parsePage takes a page apart. Blocks of a terminal are marked with its name.
func parsePage(text string) []part {
	var parts []part
	var in bool
	var e *entry
	var terminal string
	for line := range strings.SplitSeq(text, "\n") {
		name, fence := strings.CutPrefix(line, "```")
		m := prompt.FindStringSubmatch(line)
		switch {
		case fence && !in && strings.HasPrefix(name, "console"):
			in, e, terminal = true, nil, strings.TrimSpace(strings.TrimPrefix(name, "console"))
			parts = append(parts, part{lines: []string{line}})
		case fence || !in:
			in = false
			parts = append(parts, part{lines: []string{line}})
		case e != nil && len(e.shown) == 0 && len(e.command) > 0 && strings.HasSuffix(e.command[len(e.command)-1], `\`):
			e.command = append(e.command, line)
		case m != nil || e == nil:
			e = &entry{terminal: terminal}
			parts = append(parts, part{entry: e})
			if m != nil {
				e.machine, e.command = m[1], []string{m[2]}
				break
			}
			fallthrough
		default:
			if line == "..." {
				e.more = true
			} else {
				e.shown = append(e.shown, line)
			}
		}
	}
	return parts
}

// page holds the state of a run of the page.
type page struct {
	t         *testing.T
	root      string // machines are folders in it
	ports     []port
	names     map[string]string // likewise what must vary, and is the same wherever it stands
	terminals map[string]*terminal
	processes []*terminal
}

// port pairs a port of the page with the port here.
type port struct{ page, here string }

// swap writes one for the other where it stands alone.
func swap(text, from, to string) string {
	return regexp.MustCompile(`\b`+from+`\b`).ReplaceAllString(text, to)
}

func newPage(t *testing.T) *page {
	t.Helper()
	if l, err := net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Skipf("addresses of loopback besides 127.0.0.1 are needed: %v", err)
	} else {
		_ = l.Close() // nothing connects
	}
	m := newMachine(t)
	p := &page{t: t, root: m.dir, ports: []port{{"7946", testutil.Port(t)}, {"9464", testutil.Port(t)}},
		names: make(map[string]string), terminals: make(map[string]*terminal)}
	for _, name := range []string{"operator", "agg", "server", "users", "north", "south", "west", "east", "shops"} {
		if err := os.Mkdir(m.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"ratings.csv": "users/ratings.csv", "users.txt": "users/users.txt", "experiment.yaml": "server/experiment.yaml", "items": "server/items"} {
		if out, err := exec.Command("cp", "-r", demo+"/"+from, m.path(to)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(m.path("scp"), []byte(scp), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// scp stands for OpenSSH's scp: everything that it copies here goes to the folder of a machine.
const scp = `#!/bin/sh
for last; do :; done
case $last in *:) ;; *) echo "scp: $last is no machine" >&2; exit 1 ;; esac
while [ $# -gt 1 ]; do cp -p "$1" "../${last%:}/" || exit 1; shift; done
`

// terminal is a process that keeps running, and its output.
type terminal struct {
	name  string
	cmd   *exec.Cmd
	lines chan string
	seen  []string
	ended chan error
	kill  bool // it was told to
}

// play does what an entry says, and has it show what is shown here.
func (p *page) play(e *entry) {
	p.t.Helper()
	for i, line := range e.command {
		e.command[i] = p.here(line) // what varies, as it is in this run
	}
	command := strings.Join(e.command, "\n")
	var got []string
	switch {
	case e.machine == "":
		got = p.more(p.terminals[e.terminal], e)
	case e.terminal != "":
		got = p.more(p.start(e, command), e)
	default:
		got = p.run(e, command)
	}
	if diff := p.compare(e.shown, got); diff != "" && !*update {
		p.t.Fatalf("%s %s$ %s\n%s\n%s", e.terminal, e.machine, command, diff,
			"if that is as it should be: go test ./cmd/fednode/... -run TestThreeMachines -update")
	}
	p.bind(strings.Join(e.shown, "\n"), strings.Join(got, "\n")) // where the page is written anew
	e.shown = got
	for i, line := range e.command {
		e.command[i] = p.onPage(line)
	}
}

// here replaces names of the page by the names of this run.
func (p *page) here(line string) string {
	return varying.ReplaceAllStringFunc(line, func(name string) string {
		if real, ok := p.names[name]; ok {
			return real
		}
		return name
	})
}

func (p *page) shell(machine, command string) *exec.Cmd {
	for _, port := range p.ports {
		command = swap(command, port.page, port.here)
	}
	command = pid.ReplaceAllStringFunc(command, func(name string) string {
		t := p.terminals[strings.ToLower(strings.TrimPrefix(name, "PID-OF-"))]
		if t == nil {
			p.t.Fatalf("%s is of no terminal of the page", name)
		}
		t.kill = t.kill || !strings.Contains(command, "-HUP")
		return itoa(t.cmd.Process.Pid)
	})
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = filepath.Join(p.root, machine)
	cmd.Env = append(os.Environ(), "PATH="+p.root+":"+os.Getenv("PATH"), "LC_ALL=C")
	return cmd
}

var pid = regexp.MustCompile(`PID-OF-[A-Z0-9-]+`)

// run runs a command to its end. It asks for the status again until the status equals the page's:
// the departure of a client is noticed a moment later.
func (p *page) run(e *entry, command string) []string {
	p.t.Helper()
	patience := time.Now().Add(time.Minute)
	for {
		out, err := p.shell(e.machine, command).CombinedOutput()
		if err != nil {
			p.t.Fatalf("%s$ %s: %v\n%s", e.machine, command, err, out)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			got = append(got, p.onPage(strings.TrimSuffix(line, "\n")))
		}
		if e.more {
			got = got[:min(len(got), len(e.shown))]
		}
		again := strings.HasPrefix(command, "fednode status") && time.Now().Before(patience) && !*update
		if !again || p.compare(e.shown, got) == "" {
			return got
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *page) start(e *entry, command string) *terminal {
	p.t.Helper()
	t := &terminal{name: e.terminal, cmd: p.shell(e.machine, "exec "+command), lines: make(chan string, 1<<16), ended: make(chan error, 1)}
	r, w := io.Pipe()
	t.cmd.Stdout, t.cmd.Stderr = w, w // in the order in which it is written
	if err := t.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	testutil.Limit(p.t, t.cmd.Process.Kill)
	go func() { t.ended <- t.cmd.Wait(); _ = w.Close() }()
	go func() {
		defer close(t.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			t.lines <- s.Text()
		}
	}()
	p.terminals[e.terminal], p.processes = t, append(p.processes, t)
	return t
}

// more returns the next output of a terminal: as many lines as the page has or, if the page does
// not continue, all.
func (p *page) more(t *terminal, e *entry) []string {
	p.t.Helper()
	var got []string
	late := time.After(time.Minute)
	for !e.more || len(got) < len(e.shown) {
		select {
		case line, ok := <-t.lines:
			if !ok {
				return got
			}
			t.seen = append(t.seen, line)
			got = append(got, p.onPage(console(line)))
		case <-late:
			p.t.Fatalf("the terminal %s shows nothing more; so far:\n%s", t.name, strings.Join(t.seen, "\n"))
		}
	}
	return got
}

// console is a line as a terminal shows it, where logs are not in JSON (see streams.log).
func console(line string) string {
	if !strings.HasPrefix(line, `{"level"`) {
		return line
	}
	var b bytes.Buffer
	w := zerolog.ConsoleWriter{Out: &b, NoColor: true}
	if _, err := w.Write([]byte(line)); err != nil {
		return line
	}
	return strings.TrimRight(b.String(), " \n")
}

// onPage has the ports of the page.
func (p *page) onPage(line string) string {
	for _, port := range p.ports {
		line = swap(line, port.here, port.page)
	}
	return line
}

// ended waits for processes that end with the session; others are killed.
func (p *page) ended() {
	p.t.Helper()
	for _, t := range p.processes {
		if t.kill || t.name == "aggregator" {
			continue
		}
		go func() { // no other goroutine reads the rest
			for range t.lines {
			}
		}()
		select {
		case err := <-t.ended:
			if err != nil {
				p.t.Errorf("%s: %v", t.name, err)
			}
		case <-time.After(time.Minute):
			p.t.Errorf("%s goes on after the end of the session", t.name)
		}
	}
}

// varying matches texts that differ from run to run: names, which are the same wherever they stand
// (keys, peers, sessions), and times.
var varying = regexp.MustCompile(`fedsim-public-[a-z2-7]+|12D3KooW\w{44}|\b[0-9a-f]{32}\b` +
	`|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\b\d{1,2}:\d\d[AP]M\b|\b\d+\.\d s\b|\b\d+ms\b|\bagain_in_ms=[\d.]+`)

// compare says where lines differ in more than may vary.
func (p *page) compare(want, got []string) string {
	var diff strings.Builder
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if !p.alike(w, g) {
			fmt.Fprintf(&diff, "the page  %s\nprinted   %s\n", w, g)
		}
	}
	return diff.String()
}

func (p *page) alike(want, got string) bool {
	return slices.Equal(varying.Split(want, -1), varying.Split(got, -1)) && p.bind(want, got)
}

// bind takes what varies in a text of the page for what is there in this run, one for one.
func (p *page) bind(want, got string) bool {
	a, b := varying.FindAllString(want, -1), varying.FindAllString(got, -1)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if strings.ContainsAny(a[i], ": ") { // a time
			continue
		}
		if real, ok := p.names[a[i]]; ok && real != b[i] {
			return false
		}
		for page, real := range p.names {
			if real == b[i] && page != a[i] {
				return false
			}
		}
		p.names[a[i]] = b[i]
	}
	return true
}
