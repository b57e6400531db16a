package command

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// said is what the command prints of itself.
func said(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, streams{out: &out, err: &errs}); code != 0 {
		t.Fatalf("%v: exit code %d, %s", args, code, &errs)
	}
	return out.String()
}

// The manual page has every command that kong knows, with every flag and argument.
func TestManPageIsComplete(t *testing.T) {
	c := newCommands()
	parser, err := program.Parser(&c)
	if err != nil {
		t.Fatal(err)
	}
	man := strings.ReplaceAll(said(t, "man"), `\-`, "-")
	for _, leaf := range parser.Model.Leaves(true) {
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

// Bash offers every command after its parent.
func TestCompletionIsComplete(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	c := newCommands()
	parser, err := program.Parser(&c)
	if err != nil {
		t.Fatal(err)
	}
	script := said(t, "completion", "bash") + `
COMP_WORDS=("$@" "") COMP_CWORD=$#
_fedsim
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
	check(parser.Model.Node, "fedsim")
}
