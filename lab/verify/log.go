package verify

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// logged checks the log of sessions that a deployment's model is in, and the receipts that parties kept of it.
func (f *folder) logged(ctx context.Context, r *Report, p *agreement.Public, o Options) error {
	kept, err := os.ReadFile(o.Receipts)
	if err != nil {
		return cli.Misusef("--receipts: %w", err)
	}
	e, err := agreement.Open(p)
	if err != nil {
		return err
	}
	var stated []*protocol.Leaf
	for _, s := range f.evidence.Sessions {
		stated = append(stated, &protocol.Leaf{Session: s.Session, Charges: s.Events})
	}
	own := stated[len(stated)-1]
	own.Clients, own.Rounds, own.Claims = f.summary.Clients, f.summary.Rounds, agreement.Claims(e)
	for name, to := range map[string]*[]byte{results.PublicFile: &own.Agreement, results.SharedFile: &own.Model} {
		content, wrong := os.ReadFile(filepath.Join(f.dir, name))
		if wrong != nil {
			return wrong
		}
		sum := sha256.Sum256(content)
		*to = sum[:]
	}
	a := store.Audit{Receipts: kept, Read: store.ReadFolder(o.Log), Cost: func(charges []dp.Event, delta, samplers float64) (float64, error) {
		c, wrong := epsilonOf(charges, nil, delta, samplers)
		return c.epsilon * (1 - c.tolerance), wrong
	}, Report: func(good bool, subject, text string) {
		r.add(map[bool]Verdict{true: OK, false: Forged}[good], subject, "%s", text)
	}}
	if strings.Contains(o.Log, "://") {
		a.Read = func(name string) ([]byte, error) { return fetch(ctx, strings.TrimSuffix(o.Log, "/")+"/"+name) }
	}
	if err = a.Run(stated, f.summary.Privacy.Epsilon); err != nil {
		return cli.Misusef("--log %s: %w", o.Log, err)
	}
	return nil
}

// mostFetched limits a file of a log, in bytes: 256 entries of 64 KiB.
const mostFetched = 1 << 24

func fetch(ctx context.Context, url string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, mostFetched))
}
