package hub_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// golden is the description of ../session/testdata/descriptor.json.
func golden() *session.Descriptor {
	d := &session.Descriptor{Experiment: []byte("the experiment"), Terms: session.Terms{
		Cohort: protocol.Cohort{Clients: 40, Tolerance: 0.25, Colluders: 0.125, Enrolled: 60, Goal: 35}, Mode: secagg.Active, VerifyInputs: true, SitOut: 0.0625,
		StageTimeout: time.Minute, Tail: 10 * time.Second, Gather: 10 * time.Minute,
		Claims: protocol.Claims{Unit: "user", Delta: 0.125, SamplerError: 1.0 / 1024, Search: "private", SearchDigest: "ab", Start: "cd"},
		Steps: protocol.Schedule{
			{Rounds: 3, Phase: "gramian", Model: 4096, Releases: []protocol.Release{
				{Name: "G", Len: 200, L2: 2.5, L1: 4, LInf: 0.5, MaxNonZero: 20, Scale: 1024, Width: 29, Sensitivity: 0.75,
					Noise: protocol.Noise{Kind: protocol.Split, Variance: 1e6, SamplingRate: 0.5}},
				{Name: "h", Len: 4, L2: 1, MaxNonZero: 4, Scale: 1, Width: 64,
					Noise: protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1.5, SamplingRate: 0.25, Steps: 8, Spread: true}},
			}},
			{Rounds: 1, Phase: "last", Releases: []protocol.Release{
				{Name: "none", Len: 1, L2: 1, MaxNonZero: 1, Scale: 1, Width: 8},
				{Name: "replace", Len: 1, L2: 1, MaxNonZero: 1, Scale: 1, Width: 8, Noise: protocol.Noise{Kind: protocol.TwoRound, Variance: 3}},
				{Name: "local", Len: 1, L2: 1, MaxNonZero: 1, Scale: 1, Width: 8, Noise: protocol.Noise{Kind: protocol.LocalNoise, Variance: 9}},
			}},
		},
	}}
	for i := range 32 {
		d.Federation[i], d.List[i] = byte(i), byte(32+i)
	}
	for i := range d.Terms.Session {
		d.Terms.Session[i] = byte(i + 1)
	}
	return d
}

// TestSignedDescription checks the bytes that a server signs. descriptor.py beside the golden one writes them, and their digest, by
// rules of its own: it shares no code with this program.
func TestSignedDescription(t *testing.T) {
	text, err := os.ReadFile("../session/testdata/descriptor.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct{ Descriptor, Digest string }
	if err = json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	key, err := admission.GenerateKey(simulated.New(1, "server"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := session.Sign(golden(), key)
	if err != nil {
		t.Fatal(err)
	}
	if string(signed.Descriptor) != want.Descriptor {
		t.Errorf("the description is\n%s\nwant\n%s", signed.Descriptor, want.Descriptor)
	}
	digest, err := hex.DecodeString(want.Digest)
	if err != nil || !ed25519.Verify(key.Public().Ed25519(), digest, signed.Signature) {
		t.Errorf("the signature is not over the digest %s (%v)", want.Digest, err)
	}
	var back session.Descriptor
	if err = json.Unmarshal(signed.Descriptor, &back); err != nil || !reflect.DeepEqual(&back, golden()) {
		t.Errorf("it comes back as %+v (%v)", back, err)
	}
}

// TestGoldenDescriptionHasEveryField checks that TestSignedDescription sees every field: a field without a value there
// could change its name.
func TestGoldenDescriptionHasEveryField(t *testing.T) {
	set := make(map[string]bool)
	var note func(v reflect.Value)
	note = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Slice:
			for i := range v.Len() {
				note(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				name := v.Type().Name() + "." + f.Name
				set[name] = set[name] || !v.Field(i).IsZero()
				if f.Tag.Get("json") == "" {
					t.Errorf("%s has no name in JSON: renaming it would change what is signed", name)
				}
				note(v.Field(i))
			}
		default: // a number, text, or bytes
		}
	}
	note(reflect.ValueOf(*golden()))
	if len(set) < 25 {
		t.Errorf("%d fields were seen", len(set))
	}
	for name, is := range set {
		if !is {
			t.Errorf("%s is zero everywhere", name)
		}
	}
}
