//go:build linux

package command

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/testutil"
)

// composition is compose.yaml, as far as it uses what the Compose specification has: any
// other key is an error.
type composition struct {
	Name     string
	Template composed `yaml:"x-fednode"`
	Services map[string]composed
	Volumes  map[string]any
}

// composed is a service.
type composed struct {
	Image string
	Build struct{ Context, Dockerfile, Target string }

	User, Restart string
	ReadOnly      bool     `yaml:"read_only"`
	CapDrop       []string `yaml:"cap_drop"`
	SecurityOpt   []string `yaml:"security_opt"`
	NetworkMode   string   `yaml:"network_mode"`
	Grace         string   `yaml:"stop_grace_period"`
	Entrypoint    []string
	Command       []string
	Volumes       []string
	DependsOn     map[string]struct{ Condition string } `yaml:"depends_on"`
}

func readComposition(t *testing.T) *composition {
	t.Helper()
	text, err := os.ReadFile(deploy + "/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := new(composition)
	if err = yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Containers of fednode run with nothing that they do not need, and their commands are ones
// that it takes, with the status where the image's health check asks for it.
func TestComposition(t *testing.T) {
	c := readComposition(t)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(filepath.Join(deploy, from)); err != nil && !slices.Contains(keys(c.Volumes), from) {
				t.Errorf("%s: %s is neither a volume nor a file here", name, v)
			}
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is no service", name, other)
			}
		}
		if s.Build.Target != "" {
			continue // has a shell; what it runs is checked by running it
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s may do more than it needs: %+v", name, s)
		}
		accepts(t, name, s.Command)
		if i := slices.Index(s.Command, "--ops"); i < 0 || s.Command[i+1] != "127.0.0.1:9464" {
			t.Errorf("%s: %q shows no status where fednode status asks for it", name, s.Command)
		}
	}
	if len(c.Services) != 5 {
		t.Errorf("%d services", len(c.Services))
	}
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

// The composition runs to its end. Here its volumes are folders, its containers processes, and its
// network is loopback.
func TestCompositionRuns(t *testing.T) {
	long(t)
	c, m := readComposition(t), newMachine(t)
	port := testutil.Port(t)
	command := func(name string) []string {
		s := c.Services[name]
		ops := "127.0.0.1:" + testutil.Port(t)
		change := []string{"/dns4/aggregator/tcp/7946", "/ip4/127.0.0.1/tcp/" + port, "/ip4/0.0.0.0/tcp/7946", "/ip4/127.0.0.1/tcp/" + port,
			"127.0.0.1:9464", ops, "$$", "$"}
		for _, v := range s.Volumes {
			part := strings.Split(v, ":")
			from := filepath.Join(deploy, part[0])
			if !strings.HasPrefix(part[0], "./") {
				if from = m.path("volume-" + part[0]); os.MkdirAll(from, 0o700) != nil {
					t.Fatal(from)
				}
			}
			change = append(change, part[1]+"/", from+"/", part[1], from)
		}
		r := strings.NewReplacer(change...)
		var out []string
		for _, arg := range append(slices.Clone(s.Entrypoint), s.Command...) {
			out = append(out, r.Replace(arg))
		}
		return out
	}
	operator := command("operator")
	for range 2 { // the second time there is nothing to do
		cmd := exec.Command(operator[0], operator[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+m.dir+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("operator: %v\n%s", err, out)
		}
	}
	args := command("aggregator")
	aggregator := m.start(args...)
	aggregator.until("ready for parties")
	m.run(cli.Done, "status", "--ops", args[len(args)-1])
	var others []*process
	for _, name := range []string{"server", "client-0", "clients"} {
		others = append(others, m.start(command(name)...))
	}
	for _, p := range others {
		if code := p.wait(); code != cli.Done {
			t.Errorf("%v: exit code %d\n%s", p.cmd.Args, code, p.log.String())
		}
	}
	if out := others[0].out.String(); !strings.Contains(out, "5 attempted, 0 skipped") {
		t.Errorf("the server's summary: %s", out)
	}
	for _, secret := range []string{"volume-aggregator/*.key", "volume-operator/*.key", "volume-clients/client-*.json"} {
		files, err := filepath.Glob(m.path(secret))
		if err != nil || len(files) == 0 {
			t.Errorf("there is no %s", secret)
		}
	}
}

// The Dockerfile builds one static file that needs nothing around it: it runs as an unprivileged
// user in a folder without anything else. The test compiles everything.
func TestImageIsOneFile(t *testing.T) {
	text, err := os.ReadFile(deploy + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var build string
	for line := range strings.Lines(string(text)) {
		if image, ok := strings.CutPrefix(line, "FROM "); ok && image != "scratch\n" && image != "${GO} AS build\n" {
			t.Errorf("FROM %s is not pinned", image)
		}
		if image, ok := strings.CutPrefix(line, "ARG GO="); ok && !regexp.MustCompile(`^golang:1\.\d+\.\d+-bookworm\n$`).MatchString(image) {
			t.Errorf("the tools are of %s", image)
		}
		if command, ok := strings.CutPrefix(line, "RUN "); ok && strings.Contains(command, "go build") {
			build = strings.TrimSpace(command)
		}
		if args, ok := strings.CutPrefix(line, "HEALTHCHECK "); ok {
			_, args, _ = strings.Cut(args, `"/fednode", `)
			accepts(t, "HEALTHCHECK", strings.Split(strings.Trim(args, "\"]\n"), `", "`))
		}
	}
	if !strings.HasPrefix(build, "CGO_ENABLED=0 ") || !strings.HasSuffix(build, " -o /usr/local/bin/fednode ./cmd/fednode") ||
		!strings.Contains(string(text), "\nUSER 65532:65532\n") {
		t.Errorf("the Dockerfile builds with %q", build)
	}
	effort.LongOnly(t, "compiles everything once more")
	dir := t.TempDir()
	path := filepath.Join(dir, "fednode")
	cmd := exec.Command("sh", "-c", strings.Replace(build, "/usr/local/bin/fednode", path, 1))
	cmd.Dir = "../../.."
	if out, failed := cmd.CombinedOutput(); failed != nil {
		t.Fatalf("%v\n%s", failed, out)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	if libraries, failed := f.ImportedLibraries(); failed != nil || len(libraries) > 0 {
		t.Errorf("it links %q, %v", libraries, failed)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("it needs a dynamic loader")
	}
	if os.Getuid() != 0 {
		t.Skip("a root folder of its own takes root")
	}
	if err = os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	alone := exec.Command("/fednode", "--version")
	alone.Dir = "/"
	alone.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if out, err := alone.CombinedOutput(); err != nil {
		t.Errorf("alone: %v\n%s", err, out)
	}
}
