package node_test

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// journal keeps the log lines of all roles.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// times differ from run to run, and are no secret.
var times = regexp.MustCompile(`"(again_in_ms|time)":[^,}]*`)

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return times.ReplaceAllString(j.text.String(), "")
}

// spellings are the ways in which the beginning of some bytes may be written: 15 of them,
// which base32 and base64 both spell without a rest.
func spellings(b []byte) []string {
	b = b[:15]
	var list []string
	for _, x := range b {
		list = append(list, strconv.Itoa(int(x)))
	}
	var escaped bytes.Buffer // as the log itself writes bytes
	line := zerolog.New(&escaped)
	line.Log().Bytes("b", b).Send()
	inside := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(escaped.String()), `{"b":"`), `"}`)
	b32 := base32.StdEncoding.EncodeToString(b)
	return []string{string(b), inside, strings.Trim(strconv.Quote(string(b)), `"`), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), base64.StdEncoding.EncodeToString(b),
		base64.URLEncoding.EncodeToString(b), b32, strings.ToLower(b32), strings.Join(list, " "), strings.Join(list, ",")}
}

// number returns the beginning of a float wherever it is printed: its first five digits.
func number(x float64) string {
	return strings.TrimRight(fmt.Sprintf("%.7g", x), "0")
}

// blob matches texts that no log line needs: long runs of letters and digits that are neither a
// public key nor a peer, and lists of numbers.
var (
	blob   = regexp.MustCompile(`[A-Za-z0-9+_-]{40,}`)
	public = regexp.MustCompile(`^(12D3KooW\w{44}|fedsim-public-[a-z2-7]{58})$`)
	list   = regexp.MustCompile(`\[-?\d[^a-z\]]*( |,)-?\d[^a-z\]]*( |,)-?\d`)
)

// spoiled is a trainer that remembers its contributions and their norms; the contributions of a few
// clients are far out of bounds.
type spoiled struct {
	client.Trainer
	out    bool
	mu     *sync.Mutex
	values *[]float64
}

func (s *spoiled) Contribute(p *protocol.Plan, src entropy.Source, r protocol.Runner) ([]protocol.Vector, error) {
	vectors, err := s.Trainer.Contribute(p, src, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range vectors {
		var squares float64
		for i := range v.Value {
			if s.out {
				v.Value[i] = 1234.5678 + float64(i)
			}
			*s.values = append(*s.values, v.Value[i])
			squares += v.Value[i] * v.Value[i]
		}
		*s.values = append(*s.values, math.Sqrt(squares))
	}
	return vectors, err
}

// All roles log a whole session at the lowest level, with a client whose input is unusable and a
// client that is put out. No line has a secret. The secrets to search for are known because
// randomness is simulated here. Values that follow from them (shares, masks) would be a blob.
func TestLogsHoldNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all journal
		var b strings.Builder
		var ratings []float64
		b.WriteString("user,item,rating\n")
		for k := range 8 * 9 { // six digits behind the point, all different
			x := 1.0312345 + 3.7*float64(k)/72
			ratings = append(ratings, x)
			fmt.Fprintf(&b, "u%02d,i%02d,%.6f\n", k/9, (k*5+k/9)%12, x)
		}
		data := filepath.Join(t.TempDir(), "ratings.csv")
		if err := os.WriteFile(data, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		f := newFederationOver(t, newMemory(), "algorithm=lfl-sgdmf contribution=all-ratings epsilon=8 tolerance=0.25 secagg=real mode=active rounds=4 colluders=0.1 "+
			"rating-min=1 rating-max=5 deployment.stage-timeout-s=6 data="+data, zerolog.New(&all).Level(zerolog.TraceLevel))
		const bad, out = 3, 5
		var mu sync.Mutex
		var values []float64
		f.trainer = func(id protocol.ClientID, t client.Trainer) client.Trainer {
			return &spoiled{t, id == bad, &mu, &values}
		}
		m := f.join(admission.ServerPlace)
		clients := f.joinAll()
		revocations, err := admission.Revoke(f.operator, f.federation, nil, node.RevocationOf(&f.memberships[admission.ClientPlace(out)].Enrolment))
		if err != nil {
			t.Fatal(err)
		}
		f.watch = at(protocol.RoundOpened, 2, func() {
			if failed := f.aggregator.Revoke(revocations); failed != nil {
				t.Error(failed)
			}
		})
		wait := f.start(append(clients[:out:out], clients[out+1:]...)...)
		stop := f.startStoppable(clients[out])
		outcome, err := f.server(m).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wait()
		stop()
		_ = f.aggregator.Close()

		text := all.String()
		for _, event := range []string{"input-unusable", "round-summed", "revoked", "session-ended", `"level":"debug"`} {
			if !strings.Contains(text, event) {
				t.Errorf("nothing was logged of %s", event)
			}
		}
		search := func(what string, forms ...string) {
			for _, form := range forms {
				if at := strings.Index(text, form); at >= 0 {
					t.Errorf("%s is in the log: %s", what, text[max(0, at-200):min(len(text), at+100)])
				}
			}
		}
		for place, key := range f.identities {
			search("the key of the "+place.String(), spellings(key.Ed25519().Seed())...)
		}
		search("the operator's key", spellings(f.operator.Ed25519().Seed())...)
		drawn := func(what string, src entropy.Source, label string, n uint64) {
			secret := make([]byte, 256)
			if _, err := io.ReadFull(src.Stream(label, n), secret); err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(secret); i += 32 {
				search(what+" drawn for "+label, spellings(secret[i:])...)
			}
		}
		for id := range protocol.ClientID(8) {
			place := admission.ClientPlace(id)
			drawn("the ticket of the "+place.String(), simulated.New(seed, "ticket "+place.String()), "admission/ticket", 0)
			for n := range uint64(10) {
				for _, label := range []string{"secagg/channel", "secagg/secrets", "secagg/polynomials", "noise-seed", "thinning-seed", "base-seed"} {
					drawn("what client "+place.String(), f.source(id), label, n)
				}
			}
		}
		for _, x := range ratings {
			search("a rating", fmt.Sprintf("%.5f", math.Floor(x*1e5)/1e5))
		}
		if len(values) == 0 {
			t.Error("no vector was contributed")
		}
		for _, x := range values {
			if n := number(x); len(n) >= 8 {
				search("a coordinate or norm of a vector", n)
			}
		}
		search("the model", spellings(outcome.Model)...)
		for _, s := range blob.FindAllString(text, -1) {
			if !public.MatchString(s) {
				t.Errorf("the log has %q", s)
			}
		}
		for _, s := range list.FindAllString(text, -1) {
			t.Errorf("the log has the numbers %q", s)
		}
	})
}
