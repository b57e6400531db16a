package command

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fedsim/fedsim/internal/effort"
)

// The tutorial's study, command by command as it stands there, ends in a page with the
// RMSE of three algorithms against ε, with bands.
func TestFirstStudy(t *testing.T) {
	effort.LongOnly(t, "45 runs take seconds")
	text, err := os.ReadFile("../../../docs/first-study.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "## Five commands\n")
	section, _, more := strings.Cut(section, "\n## ")
	commands := regexp.MustCompile(`(?m)^    (.+)$`).FindAllStringSubmatch(section, -1)
	if !ok || !more || len(commands) != 5 {
		t.Fatalf("the page has %d commands there, want 5", len(commands))
	}
	var script strings.Builder
	for _, c := range commands {
		if words, ours := strings.CutPrefix(c[1], "./"); ours { // the others get it and build it
			script.WriteString("exec " + words + "\n")
		}
	}
	if n := strings.Count(script.String(), "\n"); n != 3 {
		t.Fatalf("%d of the commands are fedsim's:\n%s", n, &script)
	}
	dir, work := t.TempDir(), ""
	if err = os.WriteFile(filepath.Join(dir, "study.txtar"), []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("commands", func(t *testing.T) {
		testscript.Run(t, testscript.Params{Dir: dir, TestWork: true, WorkdirRoot: dir, Setup: func(e *testscript.Env) error {
			work = e.WorkDir
			return nil
		}})
	})
	page, err := os.ReadFile(filepath.Join(work, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := bytes.Cut(page, []byte(`<h4>Quality against the privacy budget</h4>`))
	picture, _, _ = bytes.Cut(picture, []byte("</figure>"))
	for _, name := range []string{"lfl-sgdmf", "ssp-c", "private-item-bias"} {
		if !bytes.Contains(picture, []byte("</svg>"+name+"</li>")) {
			t.Errorf("the picture has no line of %s", name)
		}
	}
	if bands := bytes.Count(picture, []byte(`class="band `)); bands != 3 {
		t.Errorf("the picture has %d bands, want 3", bands)
	}
}
