package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/internal/cli"
)

// tree is a command line of its own: do ends with an error, and show prints its argument.
type tree struct {
	Do    doCmd `cmd:"" help:"Do it."`
	Group struct {
		Show showCmd `cmd:"" help:"Show 'it'."`
	} `cmd:"" help:"A group."`
	Secret struct{} `cmd:"" hidden:"" help:"Not shown."`
	cli.PagesCmd
	Version cli.VersionFlag `help:"Print the version."`
}

type doCmd struct {
	Format string `enum:"table,json" default:"table" help:"How."`
	Mood   string `choices:"glad sad" placeholder:"MOOD" help:"In which mood."`
	OfRun  string `name:"run" help:"A run."`
	Set    string `help:"A key."`
	Dry    bool   `help:"Do nothing."`
}

func (*doCmd) Run(w *world) error { return w.err }

type showCmd struct {
	What string `arg:"" help:".What starts like a macro."`
}

func (c *showCmd) Run(ctx context.Context, w *world) error {
	fmt.Fprintf(w.out, "%s, %v", c.What, ctx.Err()) //nolint:errcheck // it is a buffer
	return nil
}

// world holds the values that commands are bound to.
type world struct {
	out *bytes.Buffer
	err error
}

// call runs a command line that ends with the error.
func call(ctx context.Context, err error, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := cli.Program{
		Name: "tool", Description: "Does things.", Version: func() string { return "v1.2.3" },
		Values:    func() map[string][]string { return map[string][]string{"set": {"seed=", "rank="}} },
		Interrupt: func(err error) error { return fmt.Errorf("stopped (%w)", err) },
		Bind:      func() (any, error) { return &world{&out, err}, nil },
	}
	code = p.Run(ctx, new(tree), args, &out, &errs)
	return code, out.String(), errs.String()
}

// wrongConfig says of itself that it is a wrong call, without being of the package.
type wrongConfig struct{ usage bool }

func (wrongConfig) Error() string { return "the file is wrong" }

func (w wrongConfig) Usage() bool { return w.usage }

// A call reads the tags of the command that it names alone: a tag that kong refuses fails calls of its own command.
func TestOnlyTheCalledCommandIsRead(t *testing.T) {
	type broken struct {
		Flag string `short:"two letters"`
	}
	type plugged struct {
		Added broken `cmd:""`
	}
	p := cli.Program{Name: "tool", Bind: func() (any, error) { return &world{out: new(bytes.Buffer)}, nil }}
	for command, want := range map[string]int{"do": cli.Done, "other": cli.Failed, "added": cli.Failed, "more": cli.Failed} {
		tree := &struct {
			Do    doCmd        `cmd:""`
			Other broken       `cmd:""`
			More  kong.Plugins `embed:""`
		}{More: kong.Plugins{new(plugged)}}
		var errs bytes.Buffer
		if code := p.Run(t.Context(), tree, []string{command}, io.Discard, &errs); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", command, code, want, &errs)
		}
	}
}

func TestErrorsBecomeExitCodes(t *testing.T) {
	for _, c := range []struct {
		name, args string
		err        error
		code       int
		want       string // on stderr
	}{
		{"done", "do", nil, 0, ""},
		{"failed", "do", errors.New("no disk"), 1, "tool: no disk\n"},
		{"misuse", "do", cli.Misusef("--mood %s is none", "x"), 2, "tool: --mood x is none\n"},
		{"misuse inside", "do", fmt.Errorf("outside: %w", cli.Misusef("inside")), 2, "tool: outside: inside\n"},
		{"another package's", "do", errors.Join(errors.New("first"), wrongConfig{true}), 2, "tool: first\nthe file is wrong\n"},
		{"another package's failure", "do", wrongConfig{false}, 1, "tool: the file is wrong\n"},
		{"interrupted", "do", fmt.Errorf("while working: %w", context.Canceled), 130, "tool: stopped (while working: context canceled)\n"},
		{"interrupted by a wrong call", "do", errors.Join(cli.Misusef("wrong"), context.Canceled), 130, "tool: stopped (wrong\ncontext canceled)\n"},
		{"late", "do", context.DeadlineExceeded, 1, "tool: context deadline exceeded\n"},
		{"unknown command", "undo", nil, 2, "; tool --help tells what there is\n"},
		{"unknown flag", "do --much", nil, 2, "; tool help do tells how it is called\n"},
		{"missing argument", "group show", nil, 2, "; tool help group show tells how it is called\n"},
		{"no command of a group", "group", nil, 2, "; tool help group tells how it is called\n"},
		{"help on an unknown command", "help undo", nil, 2, "; tool --help tells what there is\n"},
		{"help on an unknown command of a group", "help group undo", nil, 2, "; tool help group tells how it is called\n"},
		{"JSON", "do --format json", errors.New(`no "disk"`), 1, `{"error":"no \"disk\"","exit":1}` + "\n"},
		{"JSON in one word", "do --format=json", cli.Misusef("wrong"), 2, `{"error":"wrong","exit":2}` + "\n"},
		{"JSON, interrupted", "do --format=json", context.Canceled, 130, `{"error":"stopped (context canceled)","exit":130}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := call(t.Context(), c.err, strings.Fields(c.args)...)
			if code != c.code || out != "" || !strings.HasSuffix(errs, c.want) || c.want == "" && errs != "" {
				t.Errorf("exit code %d, printed %q and %q; want %d and %q", code, out, errs, c.code, c.want)
			}
		})
	}
}

// The last of two values must not win in silence.
func TestFlagsHaveOneValue(t *testing.T) {
	for _, args := range [][]string{{"do", "--mood", "glad", "--mood=sad"}, {"do", "--format", "json", "--dry", "--format", "table"}} {
		if code, _, stderr := call(t.Context(), nil, args...); code != cli.Misuse || !strings.Contains(stderr, args[1]+" is given twice; keep one of the two") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := call(t.Context(), nil, "do", "--dry", "--dry", "--mood", "glad"); code != cli.Done {
		t.Errorf("a switch that is given twice: exit code %d, %s", code, stderr)
	}
}

// A call that cannot be parsed is reported in JSON too, if the call asked for JSON.
func TestWrongCallsInJSON(t *testing.T) {
	code, _, errs := call(t.Context(), nil, "do", "--much", "--format", "json")
	var e struct {
		Error string
		Exit  int
	}
	if err := json.Unmarshal([]byte(errs), &e); err != nil || code != 2 || e.Exit != 2 || !strings.Contains(e.Error, "--much") {
		t.Errorf("exit code %d, %q: %v", code, errs, err)
	}
}

func TestVersionAndHelp(t *testing.T) {
	if code, out, errs := call(t.Context(), nil, "--version"); code != 0 || out != "tool v1.2.3\n" || errs != "" {
		t.Errorf("--version: %d, %q, %q", code, out, errs)
	}
	code, out, errs := call(t.Context(), nil, "--help")
	if code != 0 || errs != "" || !strings.Contains(out, "Does things.") || !strings.Contains(out, "group show") || strings.Contains(out, "secret") {
		t.Errorf("--help: %d, %q, %q", code, out, errs)
	}
}

// Commands get their context and the bound values when the arguments are parsed.
// closed is a standard output whose reader went away.
type closed struct{}

func (closed) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

// A reader that has enough, such as head, is no mistake of the call: the command fails without a word, except in the log of a process that keeps one.
func TestAReaderThatHasEnough(t *testing.T) {
	p := cli.Program{Name: "tool", Version: func() string { return "" }, Bind: func() (any, error) { return &world{err: fmt.Errorf("the page: %w", writeTo(closed{}))}, nil }}
	for _, args := range [][]string{{"do"}, {"do", "--help"}, {"help", "do"}} {
		var errs bytes.Buffer
		if code := p.Run(context.Background(), new(tree), args, closed{}, &errs); code != cli.Failed || errs.Len() > 0 {
			t.Errorf("%q: exit code %d and %q, want %d and nothing", args, code, &errs, cli.Failed)
		}
	}
	var said error
	p.Ended = func(err error, _ int) bool {
		said = err
		return true
	}
	if code := p.Run(context.Background(), new(tree), []string{"do"}, closed{}, io.Discard); code != cli.Failed || !errors.Is(said, syscall.EPIPE) {
		t.Errorf("a log: exit code %d, and %v as its last line", code, said)
	}
}

func writeTo(w io.Writer) error {
	_, err := w.Write(nil)
	return err
}

func TestCommandsAreBound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, out, _ := call(ctx, nil, "group", "show", "this"); code != 0 || out != "this, context canceled" {
		t.Errorf("%d, %q", code, out)
	}
	p := cli.Program{Name: "tool", Bind: func() (any, error) { return nil, cli.Misusef("--level is wrong") }}
	var errs bytes.Buffer
	if code := p.Run(t.Context(), new(tree), []string{"do"}, &errs, &errs); code != 2 || errs.String() != "tool: --level is wrong\n" {
		t.Errorf("what cannot be bound: %d, %q", code, &errs)
	}
}

// Only kong's own exit is caught; a panic of a command is not.
func TestPanicsGoOn(t *testing.T) {
	defer func() {
		if e := recover(); e != "lost" {
			t.Errorf("recovered %v", e)
		}
	}()
	p := cli.Program{Name: "tool", Bind: func() (any, error) { panic("lost") }}
	p.Run(t.Context(), new(tree), []string{"do"}, new(bytes.Buffer), new(bytes.Buffer))
	t.Error("nothing was lost")
}

func TestPrintJSON(t *testing.T) {
	var b bytes.Buffer
	if err := cli.PrintJSON(&b, map[string]int{"b": 2, "a": 1}); err != nil || b.String() != "{\n  \"a\": 1,\n  \"b\": 2\n}\n" {
		t.Errorf("%q, %v", &b, err)
	}
	if err := cli.PrintJSON(&b, func() {}); err == nil {
		t.Error("a function was printed")
	}
}
