package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// aggregatorCmd is fednode aggregator. It needs no party's data and no experiment.
type aggregatorCmd struct {
	Key         string   `required:"" placeholder:"FILE" help:"Its own key, whose public half the invitations name."`
	Federation  string   `required:"" placeholder:"FILE" help:"The federation, as the operator wrote it last. Read again on SIGHUP: it may have grown."`
	State       string   `required:"" placeholder:"DIR" help:"Where it keeps who is enrolled; made if it is missing."`
	Tickets     string   `required:"" placeholder:"FILE" help:"Whom the operator has invited. Read again on SIGHUP."`
	Revocations string   `placeholder:"FILE" help:"Whom the operator has revoked. Read again on SIGHUP; may be missing."`
	List        []string `sep:"none" placeholder:"FILE" help:"To rebuild a state that was lost: a list of enrolled parties, as fednode enrolled writes it; may be repeated. Parties that the state lacks are taken over from it."`
	Invitation  string   `placeholder:"FILE" help:"Its own invitation, with which it enters itself in the list; needed once."`
	Listen      []string `sep:"none" placeholder:"MULTIADDR" help:"Where it listens; may be repeated. Default: port 7946 of all addresses, TCP and QUIC."`
	Relay       []string `sep:"none" placeholder:"KEY" help:"The public key of a relay, which may stand between the aggregator and clients, and is trusted to follow the protocol; may be repeated. Sessions in active mode are refused with relays."`
	Ops         string   `default:"127.0.0.1:9464" help:"Address on this machine of metrics, health and status."`
	probeFlag
}

func (c *aggregatorCmd) Run(ctx context.Context, s *streams) error {
	log := s.log("aggregator")
	key, err := admission.ReadKey(c.Key)
	if err != nil {
		return err
	}
	unlock, err := party.LockKey(c.Key)
	if err != nil {
		return err
	}
	defer unlock()
	federation, err := admission.ReadFile(c.Federation, admission.ParseFederation)
	if err != nil {
		return err
	}
	s.starts(&log, federation)
	relays, err := each("--relay", c.Relay, admission.ParsePublicKey)
	if err != nil {
		return err
	}
	listen, err := listenAt(c.Listen)
	if err != nil {
		return err
	}
	registry, err := c.registry(federation)
	if err != nil {
		return err
	}
	defer registry.Close() //nolint:errcheck // all that is in it is durable
	if err = c.rebuild(registry, &log); err != nil {
		return err
	}
	if err = revoke(of(registry), c.Revocations); err == nil { // of the key before, if this is another one
		err = c.enrol(registry, key, &log)
	}
	if err != nil {
		return err
	}
	monitor, stop, err := c.monitored(ctx, "aggregator", c.Ops, &log)
	if err != nil {
		return err
	}
	defer stop()
	monitor.Disk(c.State)
	monitor.Waits("it does not listen yet")
	a, err := hub.NewAggregator(context.WithoutCancel(ctx), hub.AggregatorConfig{Identity: key, Federation: federation, Registry: registry, Listen: listen,
		State: c.State, Log: log, Workers: protocol.Workers(runtime.GOMAXPROCS(0)), Observer: monitor, Relays: relays})
	if err != nil {
		return occupied(err)
	}
	defer a.Close() //nolint:errcheck // nothing is left to be lost
	monitor.Check(a.Check)
	monitor.Places(a.Places)
	if err = c.load(a, federation); err != nil {
		return err
	}
	if err = listening(s.out, a.Addresses()); err != nil {
		return err
	}
	monitor.Waits("")
	log.Info().Str("next", "fednode server and fednode client, each with its invitation").Msg("ready for parties")
	onHangup(ctx, monitor, &log, "federation, tickets and revocations read again", func() error { return c.load(a, federation) })
	a.Drain()
	log.Info().Msg("stopped")
	return nil
}

// load reads the epochs of the federation, and whom the operator has revoked and invited. None waits for the other:
// revocations take effect even if the tickets cannot be read. f is the federation as it was at the start.
func (c *aggregatorCmd) load(a *hub.Aggregator, f *admission.Federation) error {
	now, err := admission.ReadFile(c.Federation, admission.ParseFederation)
	if err != nil {
		now = f
	}
	err = errors.Join(err, revoke(a.Revoke, c.Revocations), a.Grow(now))
	tickets, wrong := readTickets(c.Tickets, now)
	if wrong == nil {
		wrong = a.Admit(tickets)
	}
	return errors.Join(err, wrong)
}

// registry opens who is enrolled. It is made in an empty folder only: an aggregator that lost it would let a ticket be used twice.
func (c *aggregatorCmd) registry(f *admission.Federation) (*admission.Registry, error) {
	if err := store.MakeFolder(c.State); err != nil {
		return nil, err
	}
	path := filepath.Join(c.State, party.RegistryFile)
	entries, err := os.ReadDir(c.State)
	if err != nil {
		return nil, err
	}
	leftover := func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".tmp") } // of a start that was cut short
	if len(slices.DeleteFunc(entries, leftover)) == 0 {
		if err = store.CreateLog(path, store.RegistryKind(f)); err != nil {
			return nil, err
		}
	}
	r, err := party.OpenRegistry(path, f)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the folder is in use for something else, or its registry was lost; name an empty one, with --list to rebuild it", err)
	}
	return r, err
}

func (c *aggregatorCmd) rebuild(r *admission.Registry, log *zerolog.Logger) error {
	if len(c.List) == 0 {
		return nil
	}
	lists := make([]*admission.List, len(c.List))
	for i, path := range c.List {
		var err error
		if lists[i], err = admission.ReadFile(path, admission.ParseList); err != nil {
			return err
		}
	}
	before := len(r.List().Enrolments)
	after, err := r.Restore(lists...)
	if err != nil {
		return fmt.Errorf("--list: %w", err)
	}
	log.Info().Int("before", before).Int("parties", after).Msg("took parties over from lists")
	return nil
}

func (c *aggregatorCmd) enrol(r *admission.Registry, key admission.PrivateKey, log *zerolog.Logger) error {
	if place, ok := r.Lookup(key.Public()); ok {
		if place != admission.AggregatorPlace {
			return fmt.Errorf("%w: %s is the %s", admission.ErrIdentityUsed, key.Public(), place)
		}
		return nil
	}
	if holder, taken := r.Holder(admission.AggregatorPlace); taken {
		return cli.Misusef("--key: it belongs to %s, and the list in %s names %s as the aggregator. Start it with the key of the list; or have the operator revoke the aggregator and invite this key", key.Public(), c.State, holder)
	}
	if c.Invitation == "" {
		log.Warn().Msg("the aggregator is not on the list itself: --invitation enters it, so that parties can tell if another takes its place")
		return nil
	}
	i, err := admission.ReadInvitation(c.Invitation)
	if err != nil {
		return err
	}
	if i.Ticket.Place != admission.AggregatorPlace {
		return cli.Misusef("--invitation: it is for the %s", i.Ticket.Place)
	}
	if pin := i.Contact.Aggregator; !pin.IsZero() && pin != key.Public() {
		return cli.Misusef("--key: it belongs to %s, and invitations name %s", key.Public(), pin)
	}
	m, err := i.Accept(key)
	if err != nil {
		return err
	}
	if err = r.Redeem(time.Now(), &m.Enrolment); err != nil {
		return err
	}
	log.Info().Str("invitation", c.Invitation).Msg("entered in the list; delete the invitation, here and with the operator")
	return nil
}

// relayCmd is fednode relay. It keeps nothing on disk.
type relayCmd struct {
	Key        string   `required:"" placeholder:"FILE" help:"Its own key, whose public half the aggregator is given as --relay."`
	Federation string   `required:"" placeholder:"FILE" help:"The federation, as the operator founded it."`
	Aggregator []string `required:"" sep:"none" placeholder:"MULTIADDR" help:"Where the aggregator is, as it prints it, /p2p/ and its name included; may be repeated for one with several addresses."`
	Listen     []string `sep:"none" placeholder:"MULTIADDR" help:"Where it listens for clients; may be repeated. Default: port 7946 of all addresses, TCP and QUIC."`
	Ops        string   `placeholder:"ADDRESS" help:"Address on this machine of metrics, health and status, like 127.0.0.1:9467. Default: nowhere."`
	probeFlag
}

func (c *relayCmd) Run(ctx context.Context, s *streams) error {
	log := s.log("relay")
	key, err := admission.ReadKey(c.Key)
	if err != nil {
		return err
	}
	federation, err := admission.ReadFile(c.Federation, admission.ParseFederation)
	if err != nil {
		return err
	}
	s.starts(&log, federation)
	at, err := aggregatorAt(c.Aggregator)
	if err != nil {
		return err
	}
	listen, err := listenAt(c.Listen)
	if err != nil {
		return err
	}
	monitor, stop, err := c.monitored(ctx, "relay", c.Ops, &log)
	if err != nil {
		return err
	}
	defer stop()
	monitor.Waits("no connection to the aggregator yet")
	r, err := hub.NewRelay(context.WithoutCancel(ctx), hub.RelayConfig{Identity: key, Federation: federation, Aggregator: *at, Listen: listen, Log: log, Observer: monitor})
	if err != nil {
		return occupied(err)
	}
	monitor.Check(r.Check)
	defer r.Close() //nolint:errcheck // nothing is left to be lost
	if err = listening(s.out, r.Addresses()); err != nil {
		return err
	}
	if err = r.RunAndDrain(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}

// revoker is a party's Revoke.
type revoker func(*admission.Revocations) error

// of is a registry's Revoke, while no party is connected.
func of(r *admission.Registry) revoker {
	return func(v *admission.Revocations) error { _, err := r.Revoke(v); return err }
}

// revoke gives the operator's revocations in a file to a party. A missing file is no error: there
// are none yet. "" is none. The party verifies them, by the operator's latest key that it knows.
func revoke(to revoker, path string) error {
	if path == "" {
		return nil
	}
	v, err := admission.ReadFile(path, admission.ParseRevocations)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // none so far
	}
	if err != nil {
		return err
	}
	if err = to(v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// parties are the parties of a process. They take revocations from the operator, past an aggregator that could hold them back.
type parties struct {
	path string // of the file; "": none

	mu   sync.Mutex
	list []*revoker
}

// check returns an error if the file cannot be read: a party reads it before it uses an invitation. A key of the operator that f does
// not name may have signed it.
func (p *parties) check(f *admission.Federation) error {
	if p.path == "" {
		return nil
	}
	if _, err := readRevocations(p.path, f); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, admission.ErrSignature) {
		return fmt.Errorf("--revocations: %w", err)
	}
	return nil
}

// join has a party take what there is, and until it leaves what the file says later.
func (p *parties) join(r revoker) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err = p.tell(&r); err != nil {
		return nil, err
	}
	p.list = append(p.list, &r)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = slices.DeleteFunc(p.list, func(other *revoker) bool { return other == &r })
	}, nil
}

// tell has a party take what the file says. It may know more: the aggregator shows the newest, unless it holds them back.
func (p *parties) tell(to *revoker) error {
	err := revoke(*to, p.path)
	if errors.Is(err, admission.ErrOutdated) {
		return nil
	}
	return err
}

func (p *parties) again() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(lists.Map(p.list, p.tell)...)
}

func (p *parties) follow(ctx context.Context, monitor *ops.Monitor, log *zerolog.Logger) (stop func()) {
	if p.path == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { onHangup(ctx, monitor, log, "revocations read again", p.again) })
	return func() { cancel(); following.Wait() }
}
