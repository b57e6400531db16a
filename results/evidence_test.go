package results

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
)

// The cost of sessions together says why it is no number. Normal noise of z = 1 costs ε = 4.3772 (see below); two of them μ = √2.
func TestTogetherSaysWhyThereIsNoEpsilon(t *testing.T) {
	one := algorithm.PastSession{Epsilon: new(4.3772), Delta: 1e-5, Unit: dp.User, Accountant: dp.Best, Events: []dp.Event{dp.Gaussian(1)}}
	coarse, bare := one, algorithm.PastSession{Delta: 1e-5, Unit: dp.User}
	coarse.SamplerError = 0.6e-5 // two of them are above δ
	for want, of := range map[string][]algorithm.PastSession{
		"epsilon at most": {one, one}, "no epsilon holds at delta 1e-05": {coarse, coarse}, "no privacy, since one of them had no noise": {one, bare},
	} {
		all, err := Together(&algorithm.Start{Sessions: of})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(all.String(), want) || (all.Epsilon != nil) != (want == "epsilon at most") {
			t.Errorf("%s, want %q", all, want)
		}
	}
}

// An ε below the cost of the recorded releases is refused, with its old digest and with a new one. One normal release with
// z = 1 costs ε = 4.377178 at δ = 1e-5 (SciPy, from Φ(1/2 - ε) - e^ε·Φ(-1/2 - ε)).
func TestCheckEvidenceRefusesWhatWasChanged(t *testing.T) {
	dir := t.TempDir()
	sessions := []algorithm.PastSession{{Epsilon: new(4.3772), Delta: 1e-5, Accountant: dp.Exact, Events: []dp.Event{dp.Gaussian(1)}}}
	state := func(epsilon float64) {
		b, err := json.Marshal(map[string]any{"privacy": map[string]any{"epsilon": epsilon, "delta": 1e-5}})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "summary.json"), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(want error, format string, args ...any) {
		t.Helper()
		if err := CheckEvidence(dir); !errors.Is(err, want) {
			t.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
		}
	}
	check(fs.ErrNotExist, "no evidence")
	for _, epsilon := range []float64{4.3772, 0.5, 4.377} {
		state(epsilon)
		if err := WriteEvidence(dir, sessions, nil); err != nil {
			t.Fatal(err)
		}
		if epsilon == 4.3772 {
			check(nil, "the honest ε")
			state(4.38)
			check(ErrForged, "another file")
		} else {
			check(ErrForged, "epsilon %v with its digest", epsilon)
		}
	}
}

// A crash between the two files of an amendment leaves a folder that is not accused, whichever of them was written. Files of others
// in the folder are none of the run's.
func TestEvidenceSurvivesACrashAndIgnoresOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const before, after = `{"privacy":{"epsilon":5,"delta":1e-5}}`, `{"privacy":{"epsilon":5,"delta":1e-5},"more":1}`
	write("summary.json", before)
	write("notes.txt", "the owner's")
	sessions := []algorithm.PastSession{{Epsilon: new(4.3772), Delta: 1e-5, Accountant: dp.Exact, Events: []dp.Event{dp.Gaussian(1)}}}
	if err := WriteEvidence(dir, sessions, func(name string) bool { return name == "summary.json" }); err != nil {
		t.Fatal(err)
	}
	write("notes.txt", "changed by the owner")
	if err := amendEvidence(dir, "summary.json", []byte(after)); err != nil {
		t.Fatal(err)
	}
	write("summary.json", before)
	if err := CheckEvidence(dir); !errors.Is(err, ErrForged) {
		t.Errorf("the earlier content, put back: %v", err)
	}
	x, err := ReadEvidence(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(before))
	x.Before = map[string]string{"summary.json": hex.EncodeToString(sum[:])} // as a crash leaves it before the file is written
	if err = x.write(dir); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]error{after: nil, before: nil, `{"privacy":{"epsilon":4.5,"delta":1e-5}}`: ErrForged} {
		write("summary.json", text)
		if err := CheckEvidence(dir); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if err := os.Remove(filepath.Join(dir, "summary.json")); err != nil {
		t.Fatal(err)
	}
	if err := CheckEvidence(dir); !errors.Is(err, ErrForged) {
		t.Errorf("without the file: %v", err)
	}
}
