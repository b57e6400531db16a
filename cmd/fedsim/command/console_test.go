package command

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/internal/verb"
)

var updatePages = flag.Bool("update-pages", false, "write what commands print into the pages; read the difference")

// consoleBlock is a block of a page that shows commands after a prompt, "$ ". A block of runs of full size says so.
var consoleBlock = regexp.MustCompile("(?ms)^```console( full-size)?\n(\\$ .*?)^```$")

// TestPagesPrintWhatTheyShow runs the console blocks of all pages, page by page in one folder each, and
// compares what they print. A line "..." stands for any number of lines. Blocks "console full-size" are for long tests.
func TestPagesPrintWhatTheyShow(t *testing.T) {
	effort.NotShort(t, "runs take seconds")
	shown := 0
	for _, path := range testutil.Pages(t, "../../..") {
		page := string(readFile(t, path))
		if !consoleBlock.MatchString(page) {
			continue
		}
		shown++
		t.Run(strings.TrimPrefix(path, "../../../"), func(t *testing.T) {
			dir := t.TempDir()
			printed := consoleBlock.ReplaceAllStringFunc(page, func(block string) string {
				parts := consoleBlock.FindStringSubmatch(block)
				if parts[1] != "" && !effort.Long() {
					return block
				}
				return "```console" + parts[1] + "\n" + strings.Join(playConsole(t, dir, parts[2]), "") + "```"
			})
			if *updatePages && printed != page {
				if err := os.WriteFile(path, []byte(printed), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if shown == 0 {
		t.Error("no page has a console block")
	}
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, s verb.Streams) int {
	return runParsed(ctx, args, s, func() {})
}

// playConsole runs the commands of a block and returns the block as it should be: each command with what it printed,
// or with what the page shows if that stands for it.
func playConsole(t *testing.T, dir, block string) (out []string) {
	t.Helper()
	lines := slices.Collect(strings.Lines(block))
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && strings.HasSuffix(lines[n-1], "\\\n") {
			n++
		}
		end := n
		for end < len(lines) && !strings.HasPrefix(lines[end], "$ ") {
			end++
		}
		command, want := strings.Join(lines[:n], ""), strings.Join(lines[n:end], "")
		got, err := printedBy(t, dir, strings.TrimPrefix(command, "$ "))
		if err != nil && strings.ReplaceAll(want, "...\n", "") == "" {
			t.Errorf("%sfails, and the page does not show why: %v\n%s", command, err, got)
		}
		switch {
		case want == "" || asShown(want).MatchString(got):
			got = want
		case !*updatePages || strings.Contains(want, "...\n"):
			t.Errorf("%s(-page +printed; -update-pages writes it, except where \"...\" stands):\n%s", command, cmp.Diff(want, got))
		}
		out = append(out, command, got)
		lines = lines[end:]
	}
	return out
}

// asShown matches what a page shows.
func asShown(text string) *regexp.Regexp {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line == "...\n" {
			b.WriteString(`(?:.*\n)*`)
		} else {
			b.WriteString(regexp.QuoteMeta(line))
		}
	}
	return regexp.MustCompile(`\A` + b.String() + `\z`)
}

// printedBy runs a command in a folder and returns its output, with what it says of an error if it fails. fedsim is this test's own binary,
// by testscript.Main, however a page calls it.
func printedBy(t *testing.T, dir, command string) (printed string, err error) {
	t.Helper()
	command = regexp.MustCompile(`(?m)^(go run \./cmd/|\./)fedsim `).ReplaceAllString(command, "fedsim ")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err = cmd.Run(); err != nil {
		out.Write(errs.Bytes())
	}
	return out.String(), err
}

// TestPagesCommandsParse checks that fedsim takes each command that stands alone in a line of a page, with its flags and their values.
func TestPagesCommandsParse(t *testing.T) {
	parser, err := program.Parser(newCommands(), nil)
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`(?m)^ *(?:    |\$ )(?:.*\| |go run \./cmd/|\./)?fedsim ([a-z].*)$`)
	rest := regexp.MustCompile(`(?: +#| \|| >|&).*$`) // a comment, a pipe, a redirection
	found := 0
	for _, path := range testutil.Pages(t, "../../..") {
		if filepath.Base(path) == "CHANGELOG.md" {
			continue // commands of older versions
		}
		page := strings.ReplaceAll(string(readFile(t, path)), "\\\n", " ")
		for _, m := range call.FindAllStringSubmatch(page, -1) {
			found++
			var args []string
			for _, w := range regexp.MustCompile(`(?:[^\s'"]|"[^"]*"|'[^']*')+`).FindAllString(rest.ReplaceAllString(m[1], ""), -1) {
				args = append(args, strings.NewReplacer(`"`, "", "'", "").Replace(w))
			}
			if _, err = parser.Parse(args); err != nil {
				t.Errorf("%s: fedsim %s: %v", path, m[1], err)
			}
		}
	}
	if found < 100 {
		t.Errorf("%d commands on pages, want 100 at least", found)
	}
}
