package secagg_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// golden is testdata/golden.json: one round in either mode, and one round with replaced noise.
type golden struct {
	Rounds  int
	Beacon  []byte
	Witness int         // the client whose incoming messages are in Opened
	Inputs  [][][]int64 // by client and release
	Changes [][]int64   // of noise, by client, of the second release
	Sums    []goldenSum
}

type goldenSum struct {
	Mode              string
	Plan              protocol.Plan
	Degree, Threshold int
	Lost              map[string]int            // client, by stage
	Liar              map[string]int            // if there is one: the Dealer who deals falsely to the Holder
	Sent              map[string]map[string]any // by stage and client
	Opened            map[string]any            // by closed stage
	Sum               [][]int64
}

// The script testdata/golden.py computes, from the specification, every field of every message of a
// sum. The messages are equal, byte for byte. The rounds are in both modes, on a sparse and a
// complete graph, with noise split and replaced, and with clients lost on the way. In active mode
// one client complains of another. The script has primitives of its own, which are held against the
// vectors of their standards. A derivation that is changed on purpose gets a new domain and new
// vectors:
//
//	cd secagg/testdata && python3 golden.py > golden.json
func TestGolden(t *testing.T) {
	file, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	if err = d.Decode(&g); err != nil {
		t.Fatal(err)
	}
	if len(g.Sums) != 3 {
		t.Fatalf("%d sums, want 3", len(g.Sums))
	}
	for _, want := range g.Sums {
		t.Run(want.Mode+"/"+want.Plan.Releases[1].Noise.Kind.String(), func(t *testing.T) { g.check(t, &want) })
	}
}

// check goes through a sum.
func (g *golden) check(t *testing.T, want *goldenSum) {
	mode := map[string]secagg.Mode{"semi-honest": secagg.SemiHonest, "active": secagg.Active}[want.Mode]
	f := newFederationWith(t, &want.Plan, secagg.Params{Mode: mode, Rounds: g.Rounds, Beacon: g.Beacon}, nil)
	for i := range f.inputs {
		f.inputs[i] = []protocol.Integers{{Value: g.Inputs[i][0]}, {Value: g.Inputs[i][1]}}
		f.removals[i] = []protocol.Integers{{}, {Value: g.Changes[i]}}
	}
	// The roster is without one.
	choice, err := f.params.Graph(f.plan.Setup()).ForRoster(len(f.clients) - 1)
	if err != nil || choice.Degree != want.Degree || choice.Threshold != want.Threshold {
		t.Fatalf("the graph is %+v, %v; the vectors are for degree %d and threshold %d", choice, err, want.Degree, want.Threshold)
	}
	for _, s := range f.stages() {
		if i, ok := want.Lost[s.String()]; ok {
			f.lose(i, 1)
		}
		if d := cmp.Diff(want.Sent[s.String()], sent(f, s, want.Liar)); d != "" {
			t.Errorf("sent at %s (-want +got):\n%s", s, d)
		}
		if s == f.last() {
			break
		}
		opened := fields(reflect.ValueOf(f.aggregator.Next(s, protocol.ClientID(g.Witness))))
		if d := cmp.Diff(want.Opened[s.String()], opened); d != "" {
			t.Errorf("handed out after %s (-want +got):\n%s", s, d)
		}
	}
	got, err := f.aggregator.Sum(serial{})
	if d := cmp.Diff(want.Sum, got); err != nil || d != "" {
		t.Errorf("error %v, sum (-want +got):\n%s", err, d)
	}
}

// sent goes through a stage and returns each client's message.
func sent(f *federation, s protocol.Stage, liar map[string]int) map[string]any {
	f.t.Helper()
	out := make(map[string]any)
	for i, alive := range f.alive {
		if !alive {
			continue
		}
		m, err := f.answer(s, i)
		if err != nil {
			f.t.Fatal(err)
		}
		if dealer, ok := liar["Dealer"]; ok && dealer == i {
			lie(f, m, i, liar["Holder"])
		}
		out[strconv.Itoa(i)] = fields(reflect.ValueOf(m))
		if err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(s); err != nil {
		f.t.Fatal(err)
	}
	f.next(s)
	return out
}

// lie has a dealer commit to other shares than the holder gets, if it is dealing.
func lie(f *federation, m protocol.Message, dealer, holder int) {
	f.t.Helper()
	dealt, ok := m.(*protocol.Shares)
	if !ok {
		return
	}
	for k := range dealt.Shares {
		if s := &dealt.Shares[k]; s.Peer == protocol.ClientID(holder) {
			if err := f.clients[dealer].DealFalsely(k, s); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// fields returns a message as JSON has it: structures by field, without zero or empty fields, and
// bytes in hexadecimal.
func fields(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		return fields(v.Elem())
	case reflect.Struct:
		out := make(map[string]any)
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && (f.Kind() != reflect.Slice || f.Len() > 0) {
				out[v.Type().Field(i).Name] = fields(f)
			}
		}
		return out
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b := make([]byte, v.Len())
			reflect.Copy(reflect.ValueOf(b), v)
			return hex.EncodeToString(b)
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = fields(v.Index(i))
		}
		return out
	default:
		return v.Convert(reflect.TypeFor[float64]()).Interface()
	}
}
