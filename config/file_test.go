package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/config"
)

// comments returns the text after a word in the comments of a file.
func comments(t *testing.T, path, word string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "# "+word+":"); ok {
			all = append(all, strings.TrimPrefix(text, " "))
		}
	}
	return all
}

func yamlFiles(t *testing.T, dir string, least int) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	if err != nil || len(paths) < least {
		t.Fatalf("%d files in %s, want at least %d (%v)", len(paths), dir, least, err)
	}
	return paths
}

// The comments of a good file list the settings that it must give.
func TestReadGoodFiles(t *testing.T) {
	for _, path := range yamlFiles(t, "good", 8) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			settings, err := config.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range settings {
				got = append(got, s.Key+"="+s.Value)
			}
			if diff := cmp.Diff(comments(t, path, "want"), got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if _, err := config.Resolve(settings); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// The comments of a bad file hold the message that it must give, with FILE for its path. A message
// that ends in ... is a prefix.
func TestReadBadFiles(t *testing.T) {
	for _, path := range yamlFiles(t, "bad", 15) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			settings, err := config.ReadFile(path)
			if err == nil {
				_, err = config.Resolve(settings)
			}
			if err == nil {
				t.Fatalf("accepted as %v", settings)
			}
			var refused *config.Error
			if !errors.As(err, &refused) {
				t.Errorf("%T is no config.Error", err)
			}
			want := strings.ReplaceAll(strings.Join(comments(t, path, "error"), "\n"), "FILE", path)
			if begins, ok := strings.CutSuffix(want, "..."); ok {
				reason, ok := strings.CutPrefix(err.Error(), begins)
				if !ok || strings.HasPrefix(reason, ":") || strings.Contains(reason, `""`) {
					t.Errorf("message %q, want %q and a reason that names something", err, begins)
				}
				return
			}
			if diff := cmp.Diff(want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadFileThatIsNotThere(t *testing.T) {
	_, err := config.ReadFile(filepath.Join(t.TempDir(), "nowhere.yaml"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nowhere.yaml: no such file or directory") {
		t.Errorf("error %v", err)
	}
	var refused *config.Error
	if errors.As(err, &refused) {
		t.Error("a missing file is no error of the configuration: it is a failure, exit code 1")
	}
}

// Each setting knows its line.
func TestReadFileOrigins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.yaml")
	if err := os.WriteFile(path, []byte("# one\n\nepsilon: 3\nmodel:\n  # five\n  fine-tune: 6\nsplit: {test: 0.1,\n  validation: 0.2}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := config.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Setting{
		{Key: "epsilon", Value: "3", Origin: path + ":3"}, {Key: "model.fine-tune", Value: "6", Origin: path + ":6"},
		{Key: "split.test", Value: "0.1", Origin: path + ":7"}, {Key: "split.validation", Value: "0.2", Origin: path + ":8"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// An error names the keys that it is about, through whatever wraps it.
func TestKeysOf(t *testing.T) {
	_, err := config.Config{}.WithMap(map[string]string{"test.kind": "x", "no.such.key": "1"})
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"refused":    {fmt.Errorf("here: %w", err), []string{"no.such.key", "test.kind"}},
		"joined":     {errors.Join(errors.New("other"), config.Refuse([]config.Problem{{Key: config.Keys()[0]}, {Key: config.Keys()[0]}})), []string{config.Keys()[0].Name}},
		"none":       {errors.New("other"), nil},
		"no message": {nil, nil},
	} {
		if got := config.KeysOf(c.err); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Names of files need not be UTF-8. The expected line is by hand: caf and the byte 0xE9 are 63 61 66 e9, in base64 Y2Fm6Q==.
func TestFileKeepsBytes(t *testing.T) {
	name := "caf\xe9"
	c, err := config.Config{}.WithMap(map[string]string{"data": name})
	if err != nil || !strings.Contains(string(c.YAML()), "\ndata: !!binary Y2Fm6Q==\n") {
		t.Fatalf("%v\n%.200s", err, c.YAML())
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err = os.WriteFile(path, c.YAML(), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back config.Config
	if back, err = (config.Config{}).With(settings); err != nil || !back.Equal(c) {
		t.Errorf("%v: came back as\n%.200s", err, back.YAML())
	}
	for _, bad := range []string{"data: !!binary ???\n", "data: !!int 3\n", "data: !!binary [a]\n"} {
		if err = os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := config.ReadFile(path); err == nil {
			t.Errorf("%q is read as %v", bad, s)
		}
	}
}
