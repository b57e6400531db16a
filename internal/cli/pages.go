package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
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

// command is a command that can be called, with the words before it.
type command struct {
	*kong.Node
	path string // "fedsim data get"
}

// commands returns all commands that can be called, in the order of the tree.
func commands(n *kong.Node, path string) []command {
	var list []command
	for _, c := range n.Children {
		if c.Hidden {
			continue
		}
		p := path + " " + c.Name
		if c.Leaf() {
			list = append(list, command{c, p})
		}
		list = append(list, commands(c, p)...)
	}
	return list
}

// flags returns the flags of a command and of the commands before it, except --help.
func (c command) flags() []*kong.Flag {
	var list []*kong.Flag
	for n := c.Node; n != nil; n = n.Parent {
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

func (c command) usage() string {
	words := []string{c.path}
	for _, p := range c.Positional {
		words = append(words, p.Summary())
	}
	return strings.Join(append(words, "[flags]"), " ")
}

// man returns the manual page, in the macros of man(7).
func man(app *kong.Application) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(app.Name), app.Name, roff(app.Help))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I command\n[flags]\n.SH COMMANDS\n", app.Name)
	for _, c := range commands(app.Node, app.Name) {
		fmt.Fprintf(&b, ".SS %s\n%s\n", roff(c.usage()), roff(c.Help))
		for _, p := range c.Positional {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", roff(p.Summary()), roff(p.Help))
		}
		for _, f := range c.flags() {
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
