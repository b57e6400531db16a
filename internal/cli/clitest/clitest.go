// Package clitest holds what the tests of both commands ask alike: that the manual page and the
// completion have every command, flag and argument.
package clitest

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/internal/cli"
)

// Command is a command line under test.
type Command struct {
	Program cli.Program
	Tree    func() any // makes what its arguments are parsed to
	// Run calls the command and returns its exit code.
	Run func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

func (c Command) parser(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := c.Program.Parser(c.Tree())
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// said returns the command's output about itself.
func (c Command) said(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := c.Run(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("%v: exit code %d, %s", args, code, &errs)
	}
	return out.String()
}

// ManPage fails unless the manual page has every command that kong knows, with every flag
// and argument.
func (c Command) ManPage(t *testing.T) {
	man := strings.ReplaceAll(c.said(t, "man"), `\-`, "-")
	for _, leaf := range c.parser(t).Model.Leaves(true) {
		_, section, ok := strings.Cut(man, "\n.SS "+leaf.FullPath()+" ")
		if !ok {
			t.Errorf("%s is missing", leaf.FullPath())
			continue
		}
		section, _, _ = strings.Cut(section, "\n.S")
		for _, flags := range leaf.AllFlags(true) {
			for _, f := range flags {
				if f.Name != "help" && !strings.Contains(section, "\n.B --"+f.Name+"=") && !strings.Contains(section, "\n.B --"+f.Name+"\n") {
					t.Errorf("%s: --%s is missing", leaf.FullPath(), f.Name)
				}
			}
		}
		for _, p := range leaf.Positional {
			if !strings.Contains(section, "\n.I "+p.Summary()+"\n") {
				t.Errorf("%s: %s is missing", leaf.FullPath(), p.Summary())
			}
		}
	}
}

// Examples fails unless each command has three examples that it can parse.
func (c Command) Examples(t *testing.T) {
	all := 0
	for _, leaf := range c.parser(t).Model.Leaves(true) {
		path := strings.TrimPrefix(leaf.FullPath(), c.Program.Name+" ")
		if slices.Contains([]string{"help", "version", "completion", "man"}, path) {
			continue
		}
		list := c.Program.ExamplesOf(leaf.FullPath())
		if len(list) != 3 {
			t.Errorf("%s has %d examples", path, len(list))
		}
		all += len(list)
		for _, e := range list {
			if _, err := c.parser(t).Parse(words(e)[1:]); err != nil {
				t.Errorf("%s: %v", e, err)
			}
		}
	}
	if lines := strings.Count(c.Program.Examples, "\n"); lines != all {
		t.Errorf("%d of %d examples are of no command", lines-all, lines)
	}
}

// words takes a line of shell apart. Only single quotes are special.
func words(line string) []string {
	var list []string
	for k, part := range strings.Split(line, "'") {
		if k%2 == 1 {
			list = append(list, part)
			continue
		}
		list = append(list, strings.Fields(part)...)
	}
	return list
}

// Completion fails unless bash offers every command after its parent.
func (c Command) Completion(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	script := c.said(t, "completion", "bash") + `
COMP_WORDS=("$@" "") COMP_CWORD=$#
_` + c.Program.Name + `
echo "${COMPREPLY[*]}"`
	var check func(n *kong.Node, path ...string)
	check = func(n *kong.Node, path ...string) {
		if len(n.Children) == 0 {
			return
		}
		var want []string
		for _, child := range n.Children {
			want = append(want, child.Name)
			check(child, append(path[:len(path):len(path)], child.Name)...)
		}
		out, err := exec.Command("bash", append([]string{"-c", script, "bash"}, path...)...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != strings.Join(want, " ") {
			t.Errorf("%v: %v, %q is offered; want %q", path, err, got, want)
		}
	}
	check(c.parser(t).Model.Node, c.Program.Name)
}
