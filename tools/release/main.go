// Command release makes the files of a release from the checkout that it stands in, without a network beyond the Go module
// proxy and without a daemon:
//
//	go run -C tools ./release -to DIR -key KEY              for all platforms, with wheels
//	go run -C tools ./release -to DIR -key KEY -host        for this platform alone
//
// KEY is a file with a secret key of minisign, whose password is in the variable MINISIGN_PASSWORD. The same checkout, Go and
// key give the same bytes: all times are the time of the commit. DIR gets archives with an SBOM each, Debian packages, wheels,
// a container image in an OCI archive, SHA256SUMS and its signature.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// platform is a system and a processor, by Go's names.
type platform struct{ os, arch string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

// names holds the commands of a release.
var names = []string{"fedsim", "fednode"}

type release struct {
	ctx                  context.Context
	root, to             string // the checkout, and the folder that gets the files
	version              string // v0.1.0
	revision             string
	modified             bool
	time                 time.Time // of the commit
	key                  *signer
	platforms            []platform
	pages                []entry             // manual pages and completions
	commands             map[platform]string // the folder of the built commands
	sums                 map[string]string   // digests by the name of the file
	scratch              string
	withWheels, hostOnly bool
}

func main() {
	var r release
	var key string
	flag.StringVar(&r.to, "to", "", "folder that gets the files; it must not have any yet")
	flag.StringVar(&key, "key", "", "file with the secret key of minisign")
	flag.BoolVar(&r.hostOnly, "host", false, "make files for this platform alone")
	flag.BoolVar(&r.withWheels, "wheels", true, "make wheels; this needs a Python with setuptools and wheel (PYTHON, else python3)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r.ctx = ctx
	if err := r.run(key); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1) //nolint:gocritic // the process is over
	}
}

// run makes all files.
func (r *release) run(key string) (err error) {
	if r.to == "" || key == "" {
		return fmt.Errorf("-to DIR and -key FILE are needed")
	}
	if r.to, err = filepath.Abs(r.to); err != nil {
		return err
	}
	if r.key, err = readKey(key); err != nil {
		return err
	}
	if err = r.describe(); err != nil {
		return err
	}
	if r.scratch, err = os.MkdirTemp("", "release-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.scratch) //nolint:errcheck // it is scratch
	for _, step := range []func() error{r.build, r.makePages, r.archives, r.packages, r.image, r.wheels, r.sign} {
		if err = step(); err != nil {
			return err
		}
	}
	return nil
}

// ofVersion is the line of the source that states the version.
var ofVersion = regexp.MustCompile(`(?m)^\trelease\s+= "(v[^"]+)"$`)

// describe reads from the checkout what it is.
func (r *release) describe() error {
	root, err := r.output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r.root = root
	source, err := os.ReadFile(filepath.Join(root, "internal", "version", "version.go"))
	if err != nil {
		return err
	}
	found := ofVersion.FindSubmatch(source)
	if found == nil {
		return fmt.Errorf("internal/version/version.go states no version")
	}
	r.version = string(found[1])
	if r.revision, err = r.output("git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	changes, err := r.output("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	r.modified = changes != ""
	seconds, err := r.output("git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.time = time.Unix(unix, 0).UTC()
	r.platforms = platforms
	if r.hostOnly {
		r.platforms = []platform{{runtime.GOOS, runtime.GOARCH}}
	}
	if entries, err := os.ReadDir(r.to); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s has files already", r.to)
	}
	r.sums, r.commands = map[string]string{}, map[platform]string{}
	return os.MkdirAll(r.to, 0o755)
}

// number returns the version without its v.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// output runs a program in the checkout and returns what it prints.
func (r *release) output(name string, args ...string) (string, error) {
	return r.outputWith(nil, name, args...)
}

// outputWith runs a program with more variables.
func (r *release) outputWith(env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = r.root, append(os.Environ(), env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(append([]string{name}, args...), " "), err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// write writes a file of the release and keeps its digest.
func (r *release) write(name string, b []byte) error {
	r.sums[name] = digest(b)
	return os.WriteFile(filepath.Join(r.to, name), b, 0o644)
}
