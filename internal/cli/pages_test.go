package cli_test

import (
	"bytes"
	"os"
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

func TestCompletes(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, run := range []string{"runs/one", "runs/half/deeper"} {
		if err := os.MkdirAll(run, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("runs/one/summary.json", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"|", "do group help version completion man"},
		{"g", "do group help version completion man"}, // the shell chooses
		{"secret --", "--version --help"},
		{"group |", "show"},
		{"group show |", ""}, // files
		{"--", "--version --help"},
		{"do -", "--format --mood --run --set --dry --version --help"},
		{"do --format |", "table json"},
		{"do --format = j", "table json"},
		{"do --format =", "table json"},
		{"do --format=j", "--format=table --format=json"},
		{"do --mood s", "glad sad"},
		{"do --run |", "runs/one"},
		{"do --set |", "seed= rank="},
		{"do --dry |", ""},
		{"completion |", "bash zsh fish"},
		{"group show --", "--version --help"},
	} {
		words := strings.Fields(c.line)
		if last := len(words) - 1; words[last] == "|" {
			words[last] = ""
		}
		got := page(t, append([]string{"complete", "--"}, words...)...)
		if got = strings.Join(strings.Fields(got), " "); got != c.want {
			t.Errorf("%s offers %q, want %q", c.line, got, c.want)
		}
	}
}

// Bash passes on the words up to the cursor, as it takes them apart, and offers the words of the answer that fit.
func TestBashCompletes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		words        []string
		asked, offer string
	}{
		{[]string{"tool", "d"}, "complete -- d", "do"},
		{[]string{"tool", "do", "--format", "=", "j"}, "complete -- do --format = j", "json"},
		{[]string{"tool", "do", "--format", "="}, "complete -- do --format =", "do group table json"},
		{[]string{"tool", ""}, "complete -- ", "do group table json"},
	} {
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", page(t, "completion", "bash") + `
tool() { echo "$*" >&3; printf '%s\n' do group table json; }
COMP_WORDS=("$@" behind) COMP_CWORD=$(($# - 1))
exec 3>&1
_tool
echo "${COMPREPLY[*]}"`, "bash"}, c.words...)...)
		out, err := cmd.CombinedOutput()
		if want := c.asked + "\n" + c.offer + "\n"; err != nil || string(out) != want {
			t.Errorf("%v: %v, %q, want %q", c.words, err, out, want)
		}
	}
}

// zsh runs the script of bash, and fish has a line of its own.
func TestOtherShells(t *testing.T) {
	zsh, bash, fish := page(t, "completion", "zsh"), page(t, "completion", "bash"), page(t, "completion", "fish")
	if first, _, _ := strings.Cut(zsh, "\n"); first != "#compdef tool" || !strings.HasSuffix(zsh, bash) || !strings.Contains(zsh, "bashcompinit") {
		t.Errorf("zsh:\n%s", zsh)
	}
	if fish != "complete -c tool -a '(tool complete -- (commandline -opc)[2..-1] (commandline -ct))'\n" {
		t.Errorf("fish:\n%s", fish)
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
	if strings.Contains(man, "secret") || strings.Contains(man, "complete ") || strings.Count(man, "\n.SS ") != 6 {
		t.Error("another command than those that are shown is described")
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
