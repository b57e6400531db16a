package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
)

// finishedRuns goes to the folder of a version before, where its data are, and lists its runs.
func finishedRuns(t *testing.T, version string) []string {
	t.Helper()
	t.Chdir(version)
	runs, err := filepath.Glob("finished/*")
	if err != nil || len(runs) == 0 {
		t.Fatalf("%s: no runs, %v", version, err)
	}
	return runs
}

// beforeVersions are the folders that tools/compat.sh has made of versions before.
func beforeVersions(t *testing.T) []string {
	t.Helper()
	versions, err := filepath.Glob("testdata/compat/*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no versions before: %v", err)
	}
	return versions
}

// Runs of versions before give the answers that the version itself gave of them: the files
// beside the runs are what its own commands printed.
func TestRunsOfVersionsBefore(t *testing.T) {
	for _, version := range beforeVersions(t) {
		t.Run(filepath.Base(version), func(t *testing.T) {
			for _, folder := range finishedRuns(t, version) {
				for verb, args := range map[string][]string{
					"recommend": {"--user", "3"},
					"similar":   {"--item", "Nine Rivers"},
				} {
					want, err := os.ReadFile(filepath.Base(folder) + "." + verb + ".json")
					if err != nil {
						t.Fatal(err)
					}
					var out, errs bytes.Buffer
					args = append([]string{verb, "--run", folder, "--top", "5", "--format", "json"}, args...)
					if code := run(t.Context(), args, streams{out: &out, err: &errs}); code != 0 || !bytes.Equal(out.Bytes(), want) {
						t.Errorf("fedsim %v: exit code %d, %s\n%s\nwant\n%s", args, code, &errs, &out, want)
					}
				}
			}
		})
	}
}

// The config.yaml of a run is an experiment file: all keys in it, by former names too, are read,
// and each key that has another name now is warned about.
func TestExperimentFilesOfVersionsBefore(t *testing.T) {
	for _, version := range beforeVersions(t) {
		t.Run(filepath.Base(version), func(t *testing.T) {
			for _, folder := range finishedRuns(t, version) {
				text, err := os.ReadFile(filepath.Join(folder, "config.yaml"))
				if err != nil {
					t.Fatal(err)
				}
				var out, errs bytes.Buffer
				args := []string{"plan", filepath.Join(folder, "config.yaml")}
				if code := run(t.Context(), args, streams{out: &out, err: &errs}); code != 0 {
					t.Errorf("fedsim %v: exit code %d, %s", args, code, &errs)
				}
				for _, k := range config.Keys() {
					if k.Former == "" {
						continue
					}
					_, name, _ := strings.Cut(k.Former, ".")
					warned := strings.Contains(errs.String(), k.Former+" is called "+k.Name+" now")
					if there := strings.Contains(string(text), "  "+name+": "); there != warned {
						t.Errorf("%s: %s in it: %v, warned of it: %v\n%s", folder, k.Former, there, warned, &errs)
					}
				}
			}
		})
	}
}

// A value by a former name is that of the new one, and every former name is tried here.
func TestFormerKeysKeepTheirValues(t *testing.T) {
	former := map[string]string{"statistics.memory": "0.25", "statistics.taste-weight": "3"}
	var said []config.Setting
	for name, value := range former {
		said = append(said, config.Setting{Key: name, Value: value, Origin: name})
	}
	c, err := config.Resolve(append(said, config.Setting{Key: "algorithm", Value: "am-ssp", Origin: "algorithm"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range config.Keys() {
		if k.Former == "" {
			continue
		}
		if want, tried := former[k.Former]; !tried || c.Text(k) != want {
			t.Errorf("%s, once %s, is %s; want %q", k.Name, k.Former, c.Text(k), want)
		}
	}
}
