package experiment_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/internal/opened"
)

// The run that a search chose costs nothing beside the search. Features of another content make another run, which costs its own ε,
// also where the file has the same name; and the same content is the same run anywhere.
func TestFingerprintIsOfTheContentOfFeatures(t *testing.T) {
	of := func(path, content string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte("item_id,category,value\n"+content), 0o600); err != nil {
			t.Fatal(err)
		}
		return opened.Experiment(t, "data=synthetic:small-100 algorithm=ssp-c rounds=1 features="+path).Fingerprint()
	}
	here, there := filepath.Join(t.TempDir(), "f.csv"), filepath.Join(t.TempDir(), "f.csv")
	first := of(here, "1,kind,x\n2,kind,y\n")
	if of(there, "1,kind,x\n2,kind,y\n") != first {
		t.Error("the same features elsewhere make another run")
	}
	if of(here, "1,kind,y\n2,kind,y\n") == first {
		t.Error("other features under the same name count as the run that the search chose")
	}
}
