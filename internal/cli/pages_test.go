package cli_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// page returns the output of a command about the command line.
func page(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := call(t.Context(), nil, args...)
	if code != 0 || errs != "" {
		t.Fatalf("%v: exit code %d, %s", args, code, errs)
	}
	return out
}

// completed returns the words that bash offers at the end of a line. It cuts the line into words as
// bash does: also before and after a "=".
func completed(t *testing.T, script string, words ...string) string {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"-c", script + `
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_tool
echo "${COMPREPLY[*]}"`, "bash"}, words...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestBashCompletes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	script := page(t, "completion", "bash")
	for _, c := range []struct{ line, want string }{
		{"tool |", "do group help version completion man"},
		{"tool g", "group"},
		{"tool secret --", "--help --version"},
		{"tool group |", "show"},
		{"tool group show |", ""}, // files
		{"tool --", "--help --version"},
		{"tool do -", "--format --mood --dry --version --help"},
		{"tool do --m", "--mood"},
		{"tool do --dry --fo", "--format"},
		{"tool do --format |", "table json"},
		{"tool do --format = j", "json"},
		{"tool do --format =", "table json"},
		{"tool do --mood s", "sad"},
		{"tool do --dry |", ""},
		{"tool completion |", "bash zsh fish"},
		{"tool group show --", "--version --help"},
	} {
		words := strings.Fields(c.line)
		if last := len(words) - 1; words[last] == "|" {
			words[last] = ""
		}
		if got := completed(t, script, words...); got != c.want {
			t.Errorf("%s offers %q, want %q", c.line, got, c.want)
		}
	}
}

// zsh runs the script of bash. The lines of fish are read off its manual: a condition, what
// is offered, and the help as one word.
func TestOtherShells(t *testing.T) {
	zsh, bash := page(t, "completion", "zsh"), page(t, "completion", "bash")
	if first, _, _ := strings.Cut(zsh, "\n"); first != "#compdef tool" || !strings.HasSuffix(zsh, bash) || !strings.Contains(zsh, "bashcompinit") {
		t.Errorf("zsh:\n%s", zsh)
	}
	fish := page(t, "completion", "fish")
	for _, want := range []string{
		`complete -c tool -n '__fish_use_subcommand' -a group -d 'A group.'`,
		`complete -c tool -n '__fish_seen_subcommand_from group; and not __fish_seen_subcommand_from show' -a show -d 'Show \'it\'.'`,
		`complete -c tool -n '__fish_seen_subcommand_from do' -l format -x -a 'table json' -d 'How.'`,
		`complete -c tool -n '__fish_seen_subcommand_from do' -l dry -d 'Do nothing.'`,
		`complete -c tool -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish' -d 'bash, zsh or fish.'`,
	} {
		if !strings.Contains(fish, want+"\n") {
			t.Errorf("no line %s in\n%s", want, fish)
		}
	}
	if strings.Contains(zsh+fish, "secret") {
		t.Error("a hidden command is offered")
	}
	if code, _, errs := call(t.Context(), nil, "completion", "tcsh"); code != 2 || !strings.Contains(errs, "bash") {
		t.Errorf("tcsh: exit code %d, %s", code, errs)
	}
}

func TestManPage(t *testing.T) {
	man := page(t, "man")
	for _, want := range []string{
		".TH TOOL 1\n", "tool \\- Does things.\n", ".SS tool do [flags]\nDo it.\n", ".SS tool group show <what> [flags]\n",
		".TP\n.B \\-\\-mood=MOOD\nIn which mood.\n", ".TP\n.B \\-\\-dry\n", ".TP\n.I <what>\n\\&.What starts like a macro.\n", ".SH EXIT STATUS\n",
	} {
		if !strings.Contains(man, want) {
			t.Errorf("no %q in\n%s", want, man)
		}
	}
	if strings.Contains(man, "secret") {
		t.Error("a hidden command is described")
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip(err)
	}
	groff := exec.Command("groff", "-man", "-Tascii", "-ww")
	groff.Stdin = strings.NewReader(man)
	var complaints bytes.Buffer
	groff.Stderr = &complaints
	if out, err := groff.Output(); err != nil || complaints.Len() > 0 || !strings.Contains(string(out), "Does things.") {
		t.Errorf("groff: %v\n%s\n%s", err, &complaints, out)
	}
}
