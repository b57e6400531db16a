package internal_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/version"
)

const hash = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"

// The versions and settings are of forms that `go version -m` shows, see
// https://go.dev/ref/mod#pseudo-versions.
func TestWhatTheGoCommandWroteDown(t *testing.T) {
	setting := func(pairs ...string) (list []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	other := debug.Module{Path: "example.org/other", Version: "v9.9.9"}
	for _, c := range []struct {
		name  string
		build *debug.BuildInfo
		want  string // "" if it says nothing
	}{
		{"nothing", nil, ""},
		{"a checkout", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.0.0-20261122101203-1a2b3c4d5e6f"},
			Settings: setting("vcs", "git", "vcs.revision", hash, "vcs.modified", "false")}, "v0.1.0-dev (revision 1a2b3c4d5e6f)"},
		{"a checkout with changes", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"},
			Settings: setting("vcs.revision", hash, "vcs.modified", "true")}, "v0.1.0-dev (revision 1a2b3c4d5e6f, modified)"},
		{"a checkout of a tag", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0"},
			Settings: setting("vcs", "git", "vcs.revision", hash, "vcs.modified", "false")}, "v0.1.0 (revision 1a2b3c4d5e6f)"},
		{"a checkout of a tag with changes", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0+dirty"},
			Settings: setting("vcs", "git", "vcs.revision", hash, "vcs.modified", "true")}, "v0.1.0 (revision 1a2b3c4d5e6f, modified)"},
		{"-buildvcs=false", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, ""},
		{"a test", &debug.BuildInfo{Main: debug.Module{Path: module}}, ""},
		{"go install of a revision", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.1-0.20261122101203-1a2b3c4d5e6f"}}, "v0.1.0-dev (revision 1a2b3c4d5e6f)"},
		{"go install of a tag", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0"}}, "v0.1.0 (revision v0.1.0)"},
		{"dirty", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.0.0-20261122101203-1a2b3c4d5e6f+dirty"}}, "v0.1.0-dev (revision 1a2b3c4d5e6f, modified)"},
		{"another's program", &debug.BuildInfo{Main: other, Settings: setting("vcs.revision", strings.Repeat("f", 40), "vcs.modified", "true"),
			Deps: []*debug.Module{{Path: "example.org/x", Version: "v1.0.0"}, {Path: module, Version: "v0.1.0"}}}, "v0.1.0 (revision v0.1.0)"},
		{"another's program with a replacement", &debug.BuildInfo{Main: other, Settings: setting("vcs.revision", strings.Repeat("f", 40)),
			Deps: []*debug.Module{{Path: module, Version: "v0.1.0", Replace: &debug.Module{Path: "../fedsim"}}}}, ""},
	} {
		info := version.Info{Version: "v0.1.0-dev"}
		got := ""
		if info.Stamped(c.build) {
			got = info.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// stated returns the text that the source of package version has for a name.
func stated(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("version/version.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^(?:const|\t) *` + name + ` += "(.*)"$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("the source states no %s", name)
	}
	return string(found[1])
}

// checkout is package version and a program that prints the version, as a module under version
// control.
type checkout struct {
	t   *testing.T
	dir string
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	c := &checkout{t, t.TempDir()}
	for from, to := range map[string]string{"version/version.go": "internal/version/version.go", "testdata/print/main.go": "main.go"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		c.write(to, string(text))
	}
	c.write("go.mod", "module "+module+"\n\ngo 1.26.0\n")
	return c
}

func (c *checkout) write(path, text string) {
	c.t.Helper()
	path = filepath.Join(c.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *checkout) run(name string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// built returns the output about itself of a program that is built with the flags.
func (c *checkout) built(flags ...string) string {
	c.t.Helper()
	c.run("go", append(append([]string{"build", "-o", "print"}, flags...), ".")...)
	return c.run("./print")
}

// Source calls itself a release exactly if the changelog has a date for it.
func TestReleaseHasADate(t *testing.T) {
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	release := stated(t, "release")
	number, dev := strings.CutSuffix(strings.TrimPrefix(release, "v"), "-dev")
	dated := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(number) + `\] - \d{4}-\d\d-\d\d$`).Match(text)
	if dated == dev {
		t.Errorf("the source is %s; the changelog has a date for %s: %v", release, number, dated)
	}
}

// If no revision is known, the program names its own digest, which sha256sum prints too; otherwise
// git and the program name the same commit.
func TestEveryWayToBuild(t *testing.T) {
	effort.LongOnly(t, "building programs takes seconds")
	release, c := stated(t, "release"), newCheckout(t)
	got := c.built("-buildvcs=false")
	binary, err := version.Digest(filepath.Join(c.dir, "print"))
	if err != nil {
		t.Fatal(err)
	}
	want := version.Info{Version: release, Revision: "unknown", Binary: binary}
	if archived := stated(t, "archived"); !strings.Contains(archived, "$") { // the tests come from an archive
		want = version.Info{Version: release, Revision: archived}
	}
	if got != want.String() {
		t.Errorf("without version control: %q, want %q", got, want)
	}
	const set = "-X " + module + "/internal/version."
	got = c.built("-buildvcs=false", "-trimpath", "-ldflags=-s -w "+set+"release=v0.2.0-rc1 "+set+"revision="+hash+" "+set+"modified=true")
	if want := "v0.2.0-rc1 (revision 1a2b3c4d5e6f, modified)"; got != want {
		t.Errorf("with values set: %q, want %q", got, want)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	c.write(".gitignore", "print\n")
	c.run("git", "init", "-q")
	c.run("git", "add", ".")
	c.run("git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "test")
	head := c.run("git", "rev-parse", "HEAD")
	if got, want := c.built("-buildvcs=true"), release+" (revision "+head[:12]+")"; got != want {
		t.Errorf("in a checkout: %q, want %q", got, want)
	}
	c.write("go.mod", "module "+module+"\n\ngo 1.26.0\n\n// changed\n")
	if got, want := c.built("-buildvcs=true"), release+" (revision "+head[:12]+", modified)"; got != want {
		t.Errorf("in a checkout with changes: %q, want %q", got, want)
	}
}

func TestSourceOfAProgram(t *testing.T) {
	for want, info := range map[string]version.Info{
		hash:                             {Revision: hash},
		hash + ", modified":              {Revision: hash, Modified: true},
		"v0.1.0":                         {Revision: "v0.1.0"},
		"unknown, binary " + hash + hash: {Revision: "unknown", Binary: hash + hash},
	} {
		if got := info.Source(); got != want {
			t.Errorf("%+v: %q, want %q", info, got, want)
		}
	}
}

func TestDigestOfAProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "abc")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	// FIPS 180-4, example of the message "abc".
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got, err := version.Digest(path); err != nil || got != want {
		t.Errorf("digest %s (%v), want %s", got, err, want)
	}
	if got, err := version.Digest(path + "d"); got != "" || err == nil {
		t.Errorf("a file that is missing has the digest %q and the error %v", got, err)
	}
}

// A release needs no other change than its tag: all places name one version. Between
// releases, when it ends in -dev, there is nothing to compare yet.
func TestTagReady(t *testing.T) {
	release := stated(t, "release")
	if strings.HasSuffix(release, "-dev") {
		t.Skip("not to be released: ", release)
	}
	for path, want := range map[string]string{
		"../CHANGELOG.md": "\n## [" + strings.TrimPrefix(release, "v") + "]",
		"../CITATION.cff": "\nversion: " + strings.TrimPrefix(release, "v") + "\n",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not name the version: no %q", path, want)
		}
	}
}
