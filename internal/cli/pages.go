package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/internal/lists"
)

// PagesCmd is the commands that tell of the command line itself.
type PagesCmd struct {
	Help       helpCmd       `cmd:"" help:"Say what there is, or how one command is called."`
	About      versionCmd    `cmd:"" name:"version" help:"Print the version, as --version does; or check that files belong to a signed release."`
	Completion completionCmd `cmd:"" help:"Print a script that completes this command in a shell: source it, or put it where the shell looks."`
	Man        manCmd        `cmd:"" help:"Print the manual page, for man."`
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command: sweep, or data get."`
}

// Run prints the help.
func (c *helpCmd) Run(app *kong.Kong) error {
	_, err := app.Parse(append(c.Command, "--help"))
	if _, unknown := errors.AsType[*kong.ParseError](err); !unknown {
		return err // of writing: known commands end the process
	}
	return Misusef("%w; %s", err, help(app.Model.Name, err))
}

// VersionFlag is the flag --version, which prints the version and ends the command.
type VersionFlag bool

// BeforeReset prints the version and ends the command.
func (VersionFlag) BeforeReset(app *kong.Kong, p Program) error {
	if _, err := fmt.Fprintln(app.Stdout, p.Name+" "+p.Version()); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

type versionCmd struct {
	Check []string `placeholder:"FILE" sep:"none" help:"An archive, a package or a command: check that its digest is in the signed list of a release. Nothing is fetched. May be repeated."`
	Sums  string   `placeholder:"FILE" help:"The list, with its signature in FILE.minisig beside it. Default: SHA256SUMS in the folder of the file."`
	Key   string   `placeholder:"KEY" help:"Public key of the releases, in the form of minisign. Default: the key in this build."`
}

// Run prints the version, or what the signed list says about files.
func (c versionCmd) Run(app *kong.Kong, p Program) error {
	if len(c.Check) == 0 {
		if c.Sums != "" || c.Key != "" {
			return Misusef("--sums and --key are about a file; name it with --check FILE")
		}
		_, err := fmt.Fprintln(app.Stdout, p.Name+" "+p.Version())
		return err
	}
	if p.Check == nil {
		return Misusef("%s has no signed releases", p.Name)
	}
	for _, file := range c.Check {
		said, err := p.Check(file, cmp.Or(c.Sums, filepath.Join(filepath.Dir(file), "SHA256SUMS")), c.Key)
		if err != nil {
			return err
		}
		if _, err = fmt.Fprintln(app.Stdout, said); err != nil {
			return err
		}
	}
	return nil
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints the script.
func (c *completionCmd) Run(app *kong.Kong, p Program) error {
	var values map[string][]string
	if p.Values != nil {
		values = p.Values()
	}
	_, err := io.WriteString(app.Stdout, completion(app.Model, c.Shell, values))
	return err
}

type manCmd struct{}

// Run prints the manual page.
func (manCmd) Run(app *kong.Kong) error {
	_, err := io.WriteString(app.Stdout, man(app.Model))
	return err
}

// flags returns the flags of a command and of the commands before it, except --help.
func flags(of *kong.Node) (list []*kong.Flag) {
	for n := of; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if f.Name != "help" && !f.Hidden && !slices.ContainsFunc(list, func(o *kong.Flag) bool { return o.Name == f.Name }) {
				list = append(list, f)
			}
		}
	}
	return list
}

// text returns a flag with the placeholder of its value.
func text(f *kong.Flag) string {
	if f.IsBool() {
		return "--" + f.Name
	}
	return "--" + f.Name + "=" + f.FormatPlaceHolder()
}

func usage(c *kong.Node) string {
	words := lists.Map(c.Positional, func(p *kong.Positional) string { return p.Summary() })
	return strings.Join(slices.Concat([]string{c.FullPath()}, words, []string{"[flags]"}), " ")
}

// man returns the manual page, in the macros of man(7).
func man(app *kong.Application) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(app.Name), app.Name, roff(app.Help))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I command\n[flags]\n.SH COMMANDS\n", app.Name)
	for _, c := range app.Leaves(true) {
		fmt.Fprintf(&b, ".SS %s\n%s\n", roff(usage(c)), roff(c.Help))
		for _, p := range c.Positional {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", roff(p.Summary()), roff(p.Help))
		}
		for _, f := range flags(c) {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(text(f)), roff(f.Help))
		}
	}
	b.WriteString(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong call, 130 interrupted.\n")
	return b.String()
}

// roff escapes a text, so that it cannot be a macro.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// completion returns a script for a shell: bash, zsh or fish. The script completes commands, flags, values that are one of
// a list or that values holds by the name of their flag, finished runs after --run, and else files.
func completion(app *kong.Application, shell string, values map[string][]string) string {
	switch shell {
	case "fish":
		return fish(app, values)
	case "zsh":
		return fmt.Sprintf("#compdef %s\nautoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n", app.Name) + bash(app, values)
	default:
		return bash(app, values)
	}
}

// choices returns the possible values, from the tag enum, which kong checks, or from the tag
// choices, which kong does not check; nil if there is no list.
func choices(v *kong.Value) []string {
	if v.Enum != "" {
		return v.EnumSlice()
	}
	return strings.Fields(v.Tag.Get("choices"))
}

// runsFolder is where a shell looks for finished runs.
const runsFolder = "runs"

// valuesOf lists the values of a flag: its own list, or what is known by its name.
func valuesOf(f *kong.Flag, known map[string][]string) []string {
	if own := choices(f.Value); len(own) > 0 {
		return own
	}
	return known[f.Name]
}

// words returns the words that may follow each command: commands or values of its argument.
func words(app *kong.Application) map[string][]string {
	after := make(map[string][]string)
	for _, c := range app.Leaves(true) {
		path := strings.Fields(c.FullPath())
		for i := 1; i < len(path); i++ {
			before := strings.Join(path[:i], " ")
			if !slices.Contains(after[before], path[i]) {
				after[before] = append(after[before], path[i])
			}
		}
		if len(c.Positional) == 1 {
			after[c.FullPath()] = choices(c.Positional[0])
		}
	}
	return after
}

// bash finds the command that the words before the cursor name, and offers what may stand there.
func bash(app *kong.Application, known map[string][]string) string {
	after := words(app)
	values := make(map[string][]string) // of "fedsim run --format"
	names := map[string][]string{app.Name: {"--help"}}
	for _, f := range app.Flags {
		if f.Name != "help" && !f.Hidden {
			names[app.Name] = append(names[app.Name], "--"+f.Name)
		}
	}
	for _, c := range app.Leaves(true) {
		for _, f := range flags(c) {
			names[c.FullPath()] = append(names[c.FullPath()], "--"+f.Name)
			values[c.FullPath()+" --"+f.Name] = valuesOf(f, known)
		}
		names[c.FullPath()] = append(names[c.FullPath()], "--help")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "_%[1]s() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=%[1]s words= i\n", app.Name)
	// Bash takes --format=json apart into three words.
	b.WriteString("  [[ $cur == = ]] && cur=\n  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n")
	b.WriteString("  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"$at ${COMP_WORDS[i]}\" in\n")
	both := slices.Concat(slices.Collect(maps.Keys(after)), slices.Collect(maps.Keys(names)))
	slices.Sort(both)
	for _, path := range slices.Compact(both) {
		if path != app.Name {
			fmt.Fprintf(&b, "      %[1]q) at=%[1]q ;;\n", path)
		}
	}
	b.WriteString("    esac\n  done\n")
	b.WriteString("  case \"$at $prev\" in\n" + cases(values) + "    *\" --run\") words=$(ls -d " + runsFolder + "/*/ 2>/dev/null) ;;\n  *)\n")
	b.WriteString("  if [[ $cur == -* ]]; then\n  case \"$at\" in\n" + cases(names) + "  esac\n")
	b.WriteString("  else\n  case \"$at\" in\n" + cases(after) + "  esac\n  fi ;;\n  esac\n")
	fmt.Fprintf(&b, "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n}\ncomplete -o default -F _%[1]s %[1]s\n", app.Name)
	return b.String()
}

// cases returns the cases of a case statement that sets words.
func cases(words map[string][]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(words)) {
		if len(words[key]) > 0 {
			fmt.Fprintf(&b, "    %q) words=%q ;;\n", key, strings.Join(words[key], " "))
		}
	}
	return b.String()
}

func fish(app *kong.Application, known map[string][]string) string {
	var b strings.Builder
	line := func(when, rest, help string) {
		fmt.Fprintf(&b, "complete -c %s -n %s %s -d %s\n", app.Name, quote(when), rest, quote(help))
	}
	seen := func(path []string) string {
		return strings.Join(lists.Map(path, func(word string) string { return "__fish_seen_subcommand_from " + word }), "; and ")
	}
	after := words(app)
	for _, group := range app.Children {
		if !group.Hidden {
			line("__fish_use_subcommand", "-a "+group.Name, group.Help)
		}
	}
	for _, c := range app.Leaves(true) {
		path := strings.Fields(c.FullPath())[1:]
		if last := len(path) - 1; last > 0 {
			line(seen(path[:last])+"; and not __fish_seen_subcommand_from "+path[last], "-a "+path[last], c.Help)
		}
		for _, f := range flags(c) {
			rest := "-l " + f.Name
			switch list := valuesOf(f, known); {
			case f.Name == "run":
				rest += " -x -a '(ls -d " + runsFolder + "/*/ 2>/dev/null)'"
			case len(list) > 0:
				rest += " -x -a " + quote(strings.Join(list, " "))
			case !f.IsBool():
				rest += " -r"
			}
			line(seen(path), rest, f.Help)
		}
		if list := after[c.FullPath()]; len(list) > 0 {
			line(seen(path), "-f -a "+quote(strings.Join(list, " ")), c.Positional[0].Help)
		}
	}
	return b.String()
}

// quote keeps fish from reading anything into a text.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
