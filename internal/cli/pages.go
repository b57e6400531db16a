package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/internal/lists"
)

// PagesCmd is the commands that tell of the command line itself.
type PagesCmd struct {
	Help       helpCmd       `cmd:"" help:"Say what there is, or how one command is called."`
	About      versionCmd    `cmd:"" name:"version" help:"Print the version, as --version does."`
	Completion completionCmd `cmd:"" help:"Print a script that completes this command in a shell: source it, or put it where the shell looks."`
	Man        manCmd        `cmd:"" help:"Print the manual page, for man."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Print what a shell may put in place of the last word, a line each."`
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
	if err := (versionCmd{}).Run(app, p); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(app *kong.Kong, p Program) error {
	_, err := fmt.Fprintln(app.Stdout, p.Name+" "+p.Version())
	return err
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints the script, which asks the command itself.
func (c *completionCmd) Run(app *kong.Kong) error {
	_, err := io.WriteString(app.Stdout, strings.ReplaceAll(scripts[c.Shell], "NAME", app.Model.Name))
	return err
}

//go:embed complete.bash
var bash string

// scripts holds the scripts of shells for a command NAME. Where nothing fits, shells complete files.
var scripts = map[string]string{
	"bash": bash,
	"fish": "complete -c NAME -a '(NAME complete -- (commandline -opc)[2..-1] (commandline -ct))'\n",
	"zsh":  "#compdef NAME\nautoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + bash,
}

type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The words of the line so far."`
}

// Run prints the words.
func (c *completeCmd) Run(app *kong.Kong, p Program) error {
	var known map[string][]string
	if p.Values != nil {
		known = p.Values()
	}
	_, err := io.WriteString(app.Stdout, strings.Join(append(completed(app.Model.Node, c.Words, known), ""), "\n"))
	return err
}

// runsFolder is where a shell looks for finished runs.
const runsFolder = "runs"

// completed returns what may stand in place of the last word: commands, flags, values that are one of a list or that
// known holds by the name of their flag, and finished runs after --run. Nothing stands for files.
func completed(at *kong.Node, words []string, known map[string][]string) (list []string) {
	if len(words) == 0 {
		return nil
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	if word == "=" { // bash takes --format=json apart into three words
		word = ""
	}
	before = slices.DeleteFunc(slices.Clone(before), func(w string) bool { return w == "=" })
	stays := "" // of the word, as fish has it: --format=js
	if name, _, is := strings.Cut(word, "="); is && strings.HasPrefix(name, "--") {
		before, stays = append(before, name), name+"="
	}
	for _, w := range before {
		if i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Name == w }); i >= 0 {
			at = at.Children[i]
		}
	}
	all := flags(at)
	for _, f := range all {
		switch {
		case len(before) == 0 || before[len(before)-1] != "--"+f.Name || f.IsBool():
			continue
		case f.Name == "run":
			found, _ := filepath.Glob(filepath.Join(runsFolder, "*", "summary.json")) // the pattern is right
			list = lists.Map(found, filepath.Dir)
		default:
			if list = choices(f.Value); len(list) == 0 {
				list = known[f.Name]
			}
		}
		return lists.Map(list, func(value string) string { return stays + value })
	}
	switch {
	case strings.HasPrefix(word, "-"):
		return append(lists.Map(all, func(f *kong.Flag) string { return "--" + f.Name }), "--help")
	case len(at.Positional) == 1:
		return choices(at.Positional[0])
	}
	shown := slices.DeleteFunc(slices.Clone(at.Children), func(child *kong.Node) bool { return child.Hidden })
	return lists.Map(shown, func(child *kong.Node) string { return child.Name })
}

//go:embed man.tmpl
var manText string

type manCmd struct{}

// Run prints the manual page.
func (manCmd) Run(app *kong.Kong) error {
	page := template.New("man").Funcs(template.FuncMap{"roff": roff, "upper": strings.ToUpper, "usage": usage, "text": text, "flags": flags})
	return template.Must(page.Parse(manText)).Execute(app.Stdout, app.Model)
}

// flags returns the flags of a command and of the commands before it, except --help.
func flags(of *kong.Node) []*kong.Flag {
	groups := of.AllFlags(true) // of the first command first
	slices.Reverse(groups)
	return slices.DeleteFunc(slices.Concat(groups...), func(f *kong.Flag) bool { return f.Name == "help" })
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

// roff escapes a text, so that it cannot be a macro.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// choices returns the possible values, from the tag enum, which kong checks, or from the tag
// choices, which kong does not check; nil if there is no list.
func choices(v *kong.Value) []string {
	if v.Enum != "" {
		return v.EnumSlice()
	}
	return strings.Fields(v.Tag.Get("choices"))
}
