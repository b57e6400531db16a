package node_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
	"testing"

	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// The aggregator says whether a session is refused for good, or until something changes: a list of parties does
// by itself, the session's own description never.
func TestRefusalsForGood(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*session.Descriptor)
		key   string // who signs; "": the server
		good  bool
	}{
		"another list":               {func(d *session.Descriptor) { d.List[0]++ }, "", false},
		"another federation":         {func(d *session.Descriptor) { d.Federation[0]++ }, "", true},
		"another number of clients":  {func(d *session.Descriptor) { d.Terms.Cohort.Clients++ }, "", true},
		"no time for a stage":        {func(d *session.Descriptor) { d.Terms.StageTimeout = 0 }, "", true},
		"signed by somebody else":    {func(*session.Descriptor) {}, "mallory", true},
		"another list and no signer": {func(d *session.Descriptor) { d.List[0]++ }, "mallory", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
			f.join(admission.ServerPlace)
			d := &session.Descriptor{Federation: f.federation.Hash(), List: f.registry.List().Hash(), Terms: *terms(f.simulated), Experiment: []byte("{}")}
			c.spoil(d)
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			key := f.identity(admission.ServerPlace)
			if c.key != "" {
				key = f.key(c.key)
			}
			hash := sha256.Sum256(text)
			digest := protocol.NewTranscript("fedsim/node/session/v1").Bytes(hash[:]).Sum()
			s := f.enters(admission.ServerPlace, admission.Hash{})
			said, err := json.Marshal(map[string]any{"publish": map[string]any{"descriptor": json.RawMessage(text), "signature": ed25519.Sign(key.Ed25519(), digest[:])}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = s.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(said))), said...)); err != nil {
				t.Fatal(err)
			}
			var m struct {
				Welcome json.RawMessage
				Refused string
				ForGood bool `json:"for_good"`
			}
			for m.Refused == "" { // it is told of its own arrival first
				head := make([]byte, 4)
				if _, err = io.ReadFull(s, head); err != nil {
					t.Fatal(err)
				}
				answer := make([]byte, binary.BigEndian.Uint32(head))
				if _, err = io.ReadFull(s, answer); err != nil {
					t.Fatal(err)
				}
				if err = json.Unmarshal(answer, &m); err != nil || m.Welcome == nil && m.Refused == "" {
					t.Fatalf("%s, %v", answer, err)
				}
			}
			if m.ForGood != c.good {
				t.Errorf("%q is said to be for good: %v", m.Refused, m.ForGood)
			}
		})
	}
}
