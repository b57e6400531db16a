// Package cli is the scaffold of both commands: how a command line becomes a call, an error
// becomes an exit code, and long work shows how far it is.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"regexp"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/alecthomas/kong"
)

// The exit codes of every command.
const (
	Done        = 0
	Failed      = 1
	Misuse      = 2   // the command cannot do as asked
	Interrupted = 130 // by the user
)

// Program is a command line.
type Program struct {
	Name, Description string
	// Version returns the version. It may have to read the program's file, so that it is called only to print it.
	Version func() string
	// First is the text that the program prints when it is called without arguments: the steps to begin with.
	First string
	// Examples holds the examples that the help of commands ends with: a line of shell each.
	Examples string
	// Values returns, by the name of a flag, the values that a shell may complete; a value that ends with = is
	// one to type on after. It is called for the script of a shell alone.
	Values func() map[string][]string
	// Hint, if set, returns what to do about a call that cannot be parsed; "" if it does not know.
	Hint func(err error) string
	// Keys, if set, returns the settings that an error is about, which an error in JSON names.
	Keys func(err error) []string
	// Interrupt makes the reported error of an ended context from the error that the end caused.
	Interrupt func(error) error
	// Ended, if set, reports an error in place of a line of text; false if it does not.
	Ended func(err error, code int) bool
	// Bind returns the arguments of commands' methods Run, once the call is parsed.
	Bind func() (any, error)
}

// Main runs a command as the process: with its arguments, until it ends or is interrupted, by SIGINT, SIGTERM or one of
// more. A signal of more that the process was started to ignore, as nohup does with SIGHUP, stays ignored. fednode
// reads files again on SIGHUP and so names none.
func Main(run func(ctx context.Context, args []string) int, more ...os.Signal) {
	signals := append([]os.Signal{os.Interrupt, syscall.SIGTERM}, slices.DeleteFunc(slices.Clone(more), signal.Ignored)...)
	// A reader that closed its pipe gives an error of writing, which ends the command as other errors do: it cleans up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	ctx = withCaller(ctx)
	code := orInterrupted(ctx, os.Stderr, func() int { return run(ctx, os.Args[1:]) })
	stop()
	os.Exit(code)
}

// patience is the time that an interrupted command has to stop and to say what it leaves.
const patience = 10 * time.Second

// orInterrupted returns the code of run. A step that ignores the end of the context does not hold the process up.
func orInterrupted(ctx context.Context, stderr io.Writer, run func() int) int {
	code := make(chan int, 1)
	go func() { code <- run() }()
	select {
	case c := <-code:
		return c
	case <-ctx.Done():
	}
	select {
	case c := <-code:
		return c
	case <-time.After(patience):
		fmt.Fprintf(stderr, "interrupted: a step did not stop within %v, and was ended\n", patience) //nolint:errcheck // the process ends
		return Interrupted
	}
}

// Parser makes the kong parser of the command line for a tree of commands: of the command that a call names, or of all commands if the call
// names none. To make and read the flags of all takes longer than most calls need. A command that makes flags has the method MakeFlags.
func (p Program) Parser(tree any, call []string, more ...kong.Option) (*kong.Kong, error) {
	parser, err := kong.New(tree, append([]kong.Option{
		kong.Name(p.Name), kong.Description(p.Description), kong.Bind(p), only(reflect.ValueOf(tree).Elem(), call),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.KindMapper(reflect.String, kong.MapperFunc(asWritten)),
	}, more...)...)
	if err != nil {
		return nil, err
	}
	for _, leaf := range parser.Model.Leaves(true) {
		if list := p.ExamplesOf(leaf.FullPath()); len(list) > 0 {
			leaf.Detail = "Examples:\n\n    " + strings.Join(list, "\n    ")
		}
	}
	return parser, nil
}

// only leaves out all other commands if a call names a command, and makes the flags of the commands that are left.
func only(tree reflect.Value, call []string) kong.Option {
	others := commandsOf(tree)
	for name, command := range others {
		if len(call) > 0 && strings.EqualFold(name, call[0]) {
			makeFlags(command)
			delete(others, name)
			return kong.IgnoreFields("^" + tree.Type().Name() + `\.(` + strings.Join(slices.Collect(maps.Keys(others)), "|") + ")$")
		}
	}
	makeFlags(tree)
	return kong.IgnoreFields()
}

// commandsOf returns the commands of a tree or a group, and of what is plugged into it, by the names of their fields.
func commandsOf(tree reflect.Value) map[string]reflect.Value {
	commands := make(map[string]reflect.Value)
	for field, v := range tree.Fields() {
		if _, is := field.Tag.Lookup("cmd"); is {
			commands[field.Name] = v
		} else if field.Type == reflect.TypeFor[kong.Plugins]() {
			for _, plugin := range v.Interface().(kong.Plugins) {
				maps.Copy(commands, commandsOf(reflect.ValueOf(plugin).Elem()))
			}
		}
	}
	return commands
}

// makeFlags makes the flags of a command, or of the commands of a group or a tree.
func makeFlags(of reflect.Value) {
	if c, ok := of.Addr().Interface().(interface{ MakeFlags() }); ok {
		c.MakeFlags()
	}
	for _, c := range commandsOf(of) {
		makeFlags(c)
	}
}

// asWritten takes a text byte for byte. Kong passes texts through JSON, which replaces bytes that are not UTF-8, as in the
// name of a file.
func asWritten(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err == nil {
		target.SetString(token.String())
	}
	return err
}

// ExamplesOf returns the examples of a command, such as "fedsim data get".
func (p Program) ExamplesOf(command string) []string {
	lines := strings.Split(p.Examples, "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return line != command && !strings.HasPrefix(line, command+" ") })
}

// Run parses the arguments into the tree, runs the command, reports its error and returns the exit code. A command whose
// output is [screen.Safe]'s fails if a part of the output is lost, also where no step looked at the error.
func (p Program) Run(ctx context.Context, tree any, args []string, stdout, stderr io.Writer) int {
	err := p.run(ctx, tree, args, stdout, stderr)
	if out, ok := stdout.(interface{ Lost() error }); ok && err == nil {
		err = out.Lost()
	}
	return p.report(stderr, err, jsonFormat.MatchString(strings.Join(args, "\n")))
}

func (p Program) run(ctx context.Context, tree any, args []string, stdout, stderr io.Writer) error {
	type exited struct{} // Kong ends --help and --version by calling Exit
	defer func() {
		if e := recover(); e != nil && e != any(exited{}) {
			panic(e)
		}
	}()
	parser, err := p.Parser(tree, args, kong.Writers(stdout, stderr), kong.Exit(func(int) { panic(exited{}) }), kong.BindTo(ctx, (*context.Context)(nil)))
	if err != nil {
		return err
	}
	if len(args) == 0 && p.First != "" {
		_, err = io.WriteString(stdout, p.First)
		return err
	}
	call, err := parser.Parse(joined(args))
	if err != nil {
		hint := ""
		if p.Hint != nil {
			hint = p.Hint(err)
		}
		return Misusef("%w; %s", err, cmp.Or(hint, help(p.Name, err)))
	}
	if err = once(call.Path); err != nil {
		return err
	}
	bound, err := p.Bind()
	if err != nil {
		return err
	}
	if t, ok := tree.(interface{ profiles() *ProfileFlags }); ok {
		return t.profiles().around(func() error { return call.Run(bound) })
	}
	return call.Run(bound)
}

// once returns an error for a flag of one value that is given twice: the last value would win in silence.
func once(path []*kong.Path) error {
	given := map[*kong.Flag]bool{}
	for _, x := range path {
		if f := x.Flag; f != nil && !f.IsCumulative() && !f.IsBool() {
			if given[f] {
				return Misusef("--%s is given twice; keep one of the two", f.Name)
			}
			given[f] = true
		}
	}
	return nil
}

var unknownFlag = regexp.MustCompile(`unknown flag --([\w.-]+)`)

// UnknownFlag returns the flag that made a call unreadable, without its dashes; "" if that is no flag.
func UnknownFlag(err error) string {
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// Takes reports whether the command of a call that cannot be parsed takes a flag. A call without a command may mean any.
func Takes(err error, flag string) bool {
	command := selected(err)
	return command == nil || slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == flag })
}

// CommandOf returns the command of a call that cannot be parsed, or the group of commands, as its words; "" if there is none.
func CommandOf(err error) string {
	if command := selected(err); command != nil {
		_, words, _ := strings.Cut(command.FullPath(), " ")
		return words
	}
	return ""
}

func selected(err error) *kong.Node {
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
		return wrong.Context.Selected()
	}
	return nil
}

// help returns which help is about a call that cannot be parsed.
func help(program string, err error) string {
	if command := CommandOf(err); command != "" {
		return program + " help " + command + " tells how it is called"
	}
	return program + " --help tells what there is"
}

// joined makes --epsilon=-3 of --epsilon -3, else a short flag: what the flag means refuses a number below zero.
func joined(args []string) []string {
	var list []string
	for _, a := range args {
		last := len(list) - 1
		if _, err := strconv.ParseFloat(a, 64); err == nil && a[0] == '-' && last >= 0 && strings.HasPrefix(list[last], "--") && !strings.Contains(list[last], "=") {
			list[last] += "=" + a
			continue
		}
		list = append(list, a)
	}
	return list
}

// jsonFormat finds --format json or jsonl in the arguments themselves, a line each, since a call
// that cannot be parsed is reported in that form too.
var jsonFormat = regexp.MustCompile(`(?m)^--format[=\n]jsonl?$`)

type misuse struct{ error }

func (e *misuse) Unwrap() error { return e.error }

// Usage marks it as a wrong call and not as a failure.
func (e *misuse) Usage() bool { return true }

// Misusef makes an error of a wrong call: exit code [Misuse].
func Misusef(format string, args ...any) error { return &misuse{fmt.Errorf(format, args...)} }

// IsMisuse reports whether an error says of itself that the call was wrong: the error, or an error
// that it wraps, has a method Usage that returns true.
func IsMisuse(err error) bool {
	var u interface{ Usage() bool }
	return errors.As(err, &u) && u.Usage()
}

// report prints an error and turns it into an exit code.
func (p Program) report(w io.Writer, err error, asJSON bool) int {
	code := Failed
	lost, _ := errors.AsType[*fs.PathError](err)
	unwritten := lost != nil && lost.Path == os.Stdout.Name()
	switch {
	case err == nil:
		return Done
	case errors.Is(err, context.Canceled):
		code, err = Interrupted, p.Interrupt(err)
	case unwritten && IsMisuse(err): // --help and --version are part of reading a call
		err = lost
	case IsMisuse(err):
		code = Misuse
	}
	gone := unwritten && errors.Is(lost, syscall.EPIPE) // the reader went away, as head does once it has its lines
	if p.Ended != nil && p.Ended(err, code) || gone {
		return code
	}
	if asJSON {
		var keys []string
		if p.Keys != nil {
			keys = p.Keys(err)
		}
		json.NewEncoder(w).Encode(struct { //nolint:errcheck // a failure of stderr has no other place to go
			Error string   `json:"error"`
			Exit  int      `json:"exit"`
			Keys  []string `json:"keys,omitempty"`
		}{err.Error(), code, keys})
		return code
	}
	fmt.Fprintf(w, "%s: %v\n", p.Name, err) //nolint:errcheck // likewise
	return code
}

// PrintJSON writes a value, indented.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// PrintForm writes a value as an object if the format is json, and otherwise by a form of a template, in columns between tabs.
func PrintForm(w io.Writer, format string, forms *template.Template, form string, v any) error {
	if format == "json" {
		return PrintJSON(w, v)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return cmp.Or(forms.ExecuteTemplate(t, form, v), t.Flush())
}

// ProfileFlags names the files for profiles of time and memory, for a tree of commands to embed.
type ProfileFlags struct {
	CPUProfile string `name:"cpuprofile" placeholder:"FILE" help:"Write where processor time goes, for go tool pprof."`
	MemProfile string `name:"memprofile" placeholder:"FILE" help:"Write what memory is in use at the end, for go tool pprof."`
	Trace      string `name:"trace" placeholder:"FILE" help:"Write what each goroutine does when, for go tool trace."`
}

func (p *ProfileFlags) profiles() *ProfileFlags { return p }

// around records profiles while f runs, also if f fails. A file that cannot be made is an error before that.
func (p *ProfileFlags) around(f func() error) (err error) {
	for _, r := range []struct {
		file  string
		start func(io.Writer) error
		stop  func(io.Writer) error
	}{
		{p.CPUProfile, pprof.StartCPUProfile, func(io.Writer) error { pprof.StopCPUProfile(); return nil }},
		{p.Trace, trace.Start, func(io.Writer) error { trace.Stop(); return nil }},
		{p.MemProfile, func(io.Writer) error { return nil }, func(w io.Writer) error { runtime.GC(); return pprof.WriteHeapProfile(w) }},
	} {
		if r.file == "" {
			continue
		}
		w, failed := os.Create(r.file)
		if failed == nil {
			failed = r.start(w)
		}
		if failed != nil {
			return fmt.Errorf("profile: %w", failed)
		}
		defer func() {
			if failed := errors.Join(r.stop(w), w.Close()); failed != nil {
				err = errors.Join(err, fmt.Errorf("profile %s: %w", r.file, failed))
			}
		}()
	}
	return f()
}

// tied names the environment variable of a command that ends with its caller. The value is "stdin": the command is
// interrupted when its standard input ends. The system closes the caller's side of the pipe however the caller ends.
const tied = "FEDSIM_TIED"

// parentLook is the time between two looks at the parent's number.
const parentLook = 500 * time.Millisecond

// tiedRest is the time of a tied command to clean up. Tests shorten it.
var tiedRest = 2 * time.Second

// Tie has a command of this program end with this process. It must be called before the command starts, and takes the
// command's standard input. Closing the pipe interrupts the command, and cmd.Wait closes it after the end. A non-nil
// cmd.Env must hold the whole environment.
func Tie(cmd *exec.Cmd) (io.Closer, error) {
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, tied+"=stdin")
	return cmd.StdinPipe()
}

// withCaller returns a context that ends when the caller of a tied command ends. The process follows soon, even if it
// does not look at the context. A process that the caller forked may hold the pipe open, so the parent counts too.
func withCaller(ctx context.Context) context.Context {
	if os.Getenv(tied) != "stdin" {
		return ctx
	}
	_ = os.Unsetenv(tied) // commands that this process starts have another standard input
	ctx, interrupt := context.WithCancel(ctx)
	end := func() {
		interrupt()
		time.Sleep(tiedRest)
		os.Exit(Interrupted)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
		end()
	}()
	go func() {
		for parent := os.Getppid(); os.Getppid() == parent; {
			time.Sleep(parentLook)
		}
		end()
	}()
	return ctx
}
