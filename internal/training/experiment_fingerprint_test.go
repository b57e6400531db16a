package training_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/version"
)

// The run that a search chose costs nothing beside the search, and a checkpoint continues only its own run. Features of another
// content make another run, which costs its own ε, also where the file has the same name; and the same content is the same run anywhere.
func TestFingerprintIsOfTheContentOfFeatures(t *testing.T) {
	here, there := filepath.Join(t.TempDir(), "f.csv"), filepath.Join(t.TempDir(), "f.csv")
	for name, digest := range map[string]func(*experiment.Experiment) string{"search": (*experiment.Experiment).Fingerprint, "checkpoint": training.Identity} {
		of := func(path, content string) string {
			t.Helper()
			if err := os.WriteFile(path, []byte("item_id,category,value\n"+content), 0o600); err != nil {
				t.Fatal(err)
			}
			return digest(opened.Experiment(t, "data=synthetic:small-100 algorithm=ssp-c rounds=1 features="+path))
		}
		first := of(here, "1,kind,x\n2,kind,y\n")
		if of(there, "1,kind,x\n2,kind,y\n") != first {
			t.Errorf("%s: the same features elsewhere make another run", name)
		}
		if of(here, "1,kind,y\n2,kind,y\n") == first {
			t.Errorf("%s: other features under the same name count as the same run", name)
		}
	}
}

// Another version of fedsim may compute other bits, so that a run by it is not the run that the search paid for.
func TestFingerprintIsOfTheVersion(t *testing.T) {
	const key = "FEDSIM_TEST_REVISION"
	if of := os.Getenv(key); of != "" {
		version.State(of)
		fmt.Println("fingerprint", opened.Experiment(t, "data=synthetic:small-100 algorithm=ssp-c rounds=1").Fingerprint())
		return
	}
	of := func(revision string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), key+"="+revision)
		out, err := cmd.CombinedOutput()
		_, digest, found := strings.Cut(string(out), "fingerprint ")
		if err != nil || !found {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Fields(digest)[0]
	}
	if here := of("here"); of("here") != here || of("there") == here {
		t.Errorf("fingerprint %s of one revision, %s of it again, and %s of another one", here, of("here"), of("there"))
	}
}
