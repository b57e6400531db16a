package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// inviteCmd is fednode invite: all that the operator's key is needed for.
type inviteCmd struct {
	Operator   string `required:"" placeholder:"FILE" help:"The operator's key. Keep it where neither aggregator nor server runs."`
	Federation string `required:"" placeholder:"FILE" help:"The federation; founded with --name and --clients if the file is missing."`
	Name       string `help:"Name of a federation that is founded."`
	Clients    int    `placeholder:"N" help:"How many clients a federation that is founded has. --add makes them more."`

	AggregatorKey string            `placeholder:"PUBLIC" help:"The aggregator's public key, as keygen printed it."`
	Address       []string          `sep:"none" placeholder:"MULTIADDR" help:"Where the aggregator is dialled, like /dns4/agg.example.org/tcp/7946; may be repeated."`
	Place         []admission.Place `sep:"none" help:"Whom to invite: server, aggregator or like \"client 3\"; may be repeated. Default: all."`
	Expires       time.Duration     `default:"168h" help:"For how long invitations are good."`
	Add           int               `placeholder:"N" help:"Add so many clients' places to the federation, in a new epoch that the operator signs, and invite to them. The aggregator reads --federation again on SIGHUP. Identities and ledgers stay."`
	Remove        []admission.Place `sep:"none" placeholder:"PLACE" help:"Give up a client's place for good, in a new epoch: its holder is out, and the place does not count as lost in later sessions; may be repeated."`
	Revoke        []admission.Place `sep:"none" placeholder:"PLACE" help:"Put out whoever holds a place, and void its invitations so far; may be repeated. Nobody is invited then. For the aggregator --aggregator-key names its key."`
	HandOver      string            `placeholder:"FILE" help:"Make this key the operator's, in a new epoch that --operator signs: the present key, or the recovery key. Needs --list. Writes handover.json, with which the aggregator is started as --list."`
	List          string            `placeholder:"FILE" help:"With --hand-over: who is enrolled, as fednode enrolled writes it."`
	Recovery      string            `name:"recovery-key" placeholder:"PUBLIC" help:"Public half of a key that can hand over a federation that is founded, if the operator's key is lost."`

	Out string `required:"" placeholder:"DIR" help:"Where invitations, tickets.json and revocations.json are kept."`
	formatFlag
}

// The public files beside the invitations, which the aggregator reads.
const (
	ticketsFile     = "tickets.json"
	revocationsFile = "revocations.json"
	handoverFile    = "handover.json"
)

func (c *inviteCmd) Run(s *streams) error {
	var offer admission.Offer
	if err := c.exclusive(); err != nil {
		return err
	}
	if len(c.Revoke) == 0 && c.HandOver == "" && (len(c.Remove) == 0 || c.Add > 0) { // what cannot work is refused before anything is written
		var err error
		if offer, err = c.offer(time.Now()); err != nil {
			return err
		}
	}
	_, err := os.Stat(c.Federation)
	founded := err == nil
	o, err := c.open()
	if err != nil {
		return err
	}
	if founded && o.tickets == nil && o.revocations == nil {
		fmt.Fprintf(s.err, "warning: %s has no tickets or revocations of the federation; if a place was revoked, give --out the folder of the first invitations, or its next ticket is revoked already\n", c.Out)
	}
	switch {
	case c.HandOver != "":
		return o.handOver(c, s)
	case len(c.Revoke) > 0:
		return o.revoke(c, s)
	case c.Add > 0 || len(c.Remove) > 0:
		return o.grow(c, offer, s)
	}
	return o.invite(c, offer, s)
}

func (c *inviteCmd) exclusive() error {
	switch {
	case (c.HandOver != "") != (c.List != "") || c.HandOver != "" && len(c.Revoke)+len(c.Remove)+len(c.Place)+c.Add > 0:
		return cli.Misusef("--hand-over needs --list, and goes with no other change; make another call")
	case c.Add < 0:
		return cli.Misusef("--add %d: a number above 0 is needed", c.Add)
	case c.Add == 0 && len(c.Remove) == 0:
		return nil
	case len(c.Revoke) > 0 || len(c.Place) > 0 || c.Clients > 0:
		return cli.Misusef("--add and --remove go with neither --place, --revoke nor --clients; make another call")
	}
	return nil
}

// leastExpires is the shortest time in which a party can redeem an invitation.
const leastExpires = time.Minute

// offer is the common part of all invitations of a call.
func (c *inviteCmd) offer(now time.Time) (admission.Offer, error) {
	if c.Expires < leastExpires {
		return admission.Offer{}, cli.Misusef("--expires %v: an invitation must be good for %v or longer", c.Expires, leastExpires)
	}
	contact, err := c.contact()
	return admission.Offer{NotAfter: now.Add(c.Expires), Contact: contact}, err
}

// operator holds an operator's key, and its files except the invitations.
type operator struct {
	key         admission.PrivateKey
	federation  *admission.Federation
	tickets     []admission.Ticket
	revocations *admission.Revocations // nil: none so far
}

func (c *inviteCmd) open() (*operator, error) {
	key, err := admission.ReadKey(c.Operator)
	if err != nil {
		return nil, err
	}
	o := &operator{key: key}
	o.federation, err = admission.ReadFile(c.Federation, admission.ParseFederation)
	if errors.Is(err, fs.ErrNotExist) {
		o.federation, err = c.found(key)
	}
	if err != nil {
		return nil, err
	}
	if signer := o.federation.Signer(); key.Public() != signer && (c.HandOver == "" || key.Public() != o.federation.Recovery) {
		return nil, fmt.Errorf("%s: %w: its operator is %s, not %s", c.Federation, admission.ErrFederation, signer, key.Public())
	}
	if err = os.MkdirAll(c.Out, 0o700); err != nil {
		return nil, err
	}
	if o.tickets, err = readTickets(filepath.Join(c.Out, ticketsFile), o.federation); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	o.revocations, err = readRevocations(filepath.Join(c.Out, revocationsFile), o.federation)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return o, nil
}

func (c *inviteCmd) found(key admission.PrivateKey) (*admission.Federation, error) {
	if c.Name == "" || c.Clients == 0 {
		return nil, cli.Misusef("there is no federation %s; --name and --clients found one", c.Federation)
	}
	recovery, err := each("--recovery-key", strings.Fields(c.Recovery), admission.ParsePublicKey)
	if err != nil {
		return nil, err
	}
	f, err := admission.NewFederation(key, c.Name, c.Clients, time.Now(), entropy.System(), recovery...)
	if err != nil {
		return nil, cli.Misusef("%w", err)
	}
	return f, admission.WriteFile(c.Federation, f)
}

type invited struct {
	Place   string    `json:"place"`
	Serial  uint32    `json:"serial"`
	Expires time.Time `json:"expires"`
	File    string    `json:"file"`
}

// invite writes the invitations and then tickets.json: a ticket that the aggregator knows of always has its invitation.
func (o *operator) invite(c *inviteCmd, offer admission.Offer, s *streams) error {
	places := c.Place
	if len(places) == 0 {
		places = append(places, admission.ServerPlace, admission.AggregatorPlace)
		for id := range o.federation.Places() {
			if p := admission.ClientPlace(protocol.ClientID(id)); !o.federation.Gone(p) {
				places = append(places, p)
			}
		}
	}
	invitations := make([]*admission.Invitation, len(places)) // all are made before one is written
	for k, p := range places {
		offer.Place, offer.Serial = p, o.revocations.NextSerial(p)
		var err error
		if invitations[k], err = admission.Invite(o.key, o.federation, offer, entropy.System()); err != nil {
			return cli.Misusef("%w", err)
		}
	}
	var done []invited
	for k, i := range invitations {
		path := filepath.Join(c.Out, invitationFile(places[k]))
		if err := admission.WriteInvitation(path, i); err != nil {
			return errors.Join(err, o.keep(c.Out))
		}
		o.tickets = append(o.tickets, i.Ticket)
		done = append(done, invited{places[k].String(), i.Ticket.Serial, i.Ticket.NotAfter, path})
	}
	if err := o.keep(c.Out); err != nil {
		return err
	}
	return cli.PrintForm(s.out, c.Format, shown, "invited", done)
}

// contact is where invited parties find the aggregator.
func (c *inviteCmd) contact() (admission.Contact, error) {
	if c.AggregatorKey == "" || len(c.Address) == 0 {
		return admission.Contact{}, cli.Misusef("--aggregator-key and --address are needed: invitations say where the aggregator is, and who")
	}
	key, err := admission.ParsePublicKey(c.AggregatorKey)
	if err != nil {
		return admission.Contact{}, cli.Misusef("--aggregator-key: %w", err)
	}
	id, err := peer.IDOf(key.Ed25519())
	if err != nil {
		return admission.Contact{}, err
	}
	contact := admission.Contact{Addresses: c.Address, Peer: id.String(), Aggregator: key}
	if err := peer.CheckContact(contact); err != nil {
		return admission.Contact{}, cli.Misusef("--address: %w", err)
	}
	return contact, nil
}

// keep writes tickets.json, without what is revoked.
func (o *operator) keep(dir string) error {
	o.tickets = slices.DeleteFunc(o.tickets, func(t admission.Ticket) bool { return t.Serial < o.revocations.NextSerial(t.Place) })
	return admission.WriteFile(filepath.Join(dir, ticketsFile), hub.Tickets{Tickets: o.tickets})
}

func (o *operator) revoke(c *inviteCmd, s *streams) error {
	if len(c.Place) > 0 {
		return cli.Misusef("--revoke and --place do not go together; invite with a second call")
	}
	var entries []admission.Revocation
	for _, p := range c.Revoke {
		e := admission.Revocation{Place: p}
		if p == admission.AggregatorPlace { // invitations name its key, so parties have to know that the key is out
			var err error
			if e.Identity, err = admission.ParsePublicKey(c.AggregatorKey); err != nil {
				return cli.Misusef("--aggregator-key: with --revoke aggregator the key that is put out is needed: %w", err)
			}
		}
		for _, t := range o.tickets {
			if t.Place == p {
				e.Serial = max(e.Serial, t.Serial)
			}
		}
		if e.Serial == 0 {
			return cli.Misusef("--revoke: %s lists no ticket of the %s that is not revoked already", filepath.Join(c.Out, ticketsFile), p)
		}
		entries = append(entries, e)
	}
	var err error
	if o.revocations, err = admission.Revoke(o.key, o.federation, o.revocations, entries...); err != nil {
		return err
	}
	path := filepath.Join(c.Out, revocationsFile)
	if err = admission.WriteFile(path, o.revocations); err != nil {
		return err
	}
	if err = o.keep(c.Out); err != nil {
		return err
	}
	if err = c.void(c.Revoke); err != nil {
		return err
	}
	return cli.PrintForm(s.out, c.Format, shown, "revoked", map[string]any{"serial": o.revocations.Serial, "revoked": c.Revoke, "file": path})
}

// void removes the invitations to places, which are of no use any more, and in the way of the next ones.
func (c *inviteCmd) void(places []admission.Place) error {
	return errors.Join(lists.Map(places, func(p admission.Place) error { return atomicfile.Remove(filepath.Join(c.Out, invitationFile(p))) })...)
}

// handOver makes another key the operator's. The list is written first: a federation that was handed over is of no use without it.
func (o *operator) handOver(c *inviteCmd, s *streams) error {
	next, err := admission.ReadKey(c.HandOver)
	if err != nil {
		return err
	}
	list, err := admission.ReadFile(c.List, admission.ParseList)
	if err != nil {
		return err
	}
	if o.revocations != nil && o.revocations.Follows(list.Revocations) == nil { // else a thief of the key has revoked since
		list.Revocations = o.revocations
	}
	if list, err = o.federation.HandOver(o.key, next, list, time.Now()); err != nil {
		return cli.Misusef("--list: %w", err)
	}
	if err = admission.WriteFile(filepath.Join(c.Out, handoverFile), list); err == nil && list.Revocations != nil {
		err = admission.WriteFile(filepath.Join(c.Out, revocationsFile), list.Revocations)
	}
	if err == nil {
		err = admission.WriteFile(c.Federation, &list.Federation)
	}
	if err != nil {
		return err
	}
	o.revocations = list.Revocations
	for i := range o.tickets { // the invitations stay
		o.tickets[i].Resign(next)
	}
	if err = o.keep(c.Out); err != nil {
		return err
	}
	done := map[string]any{"epoch": len(list.Federation.Epochs), "operator": next.Public(), "parties": len(list.Enrolments), "file": filepath.Join(c.Out, handoverFile)}
	return cli.PrintForm(s.out, c.Format, shown, "handed over", done)
}

type keygenCmd struct {
	File string `arg:"" help:"Where the key is kept, readable by its owner only. It is never overwritten."`
	formatFlag
}

func (c *keygenCmd) Run(s *streams) error {
	key, err := admission.GenerateKey(entropy.System())
	if err != nil {
		return err
	}
	id, err := peer.IDOf(key.Public().Ed25519())
	if err != nil {
		return err
	}
	if err = admission.WriteKey(c.File, key); err != nil {
		return err
	}
	return cli.PrintForm(s.out, c.Format, shown, "key", map[string]string{"public": key.Public().String(), "peer": id.String()})
}

func invitationFile(p admission.Place) string {
	return strings.ReplaceAll(p.String(), " ", "-") + ".json"
}

func readTickets(path string, f *admission.Federation) ([]admission.Ticket, error) {
	return admission.ReadFile(path, func(text []byte) ([]admission.Ticket, error) { return hub.ParseTickets(text, f) })
}

func readRevocations(path string, f *admission.Federation) (*admission.Revocations, error) {
	return admission.ReadFile(path, func(text []byte) (*admission.Revocations, error) {
		r, err := admission.ParseRevocations(text)
		if err != nil {
			return nil, err
		}
		return r, r.Verify(f)
	})
}

// grow signs another epoch of the federation, and invites to the places that are new. The federation
// is written before the invitations: what is invited to is always there.
func (o *operator) grow(c *inviteCmd, offer admission.Offer, s *streams) error {
	var gone []protocol.ClientID
	for _, p := range c.Remove {
		if p.Role != protocol.Client || int64(p.Client) >= int64(o.federation.Places()) {
			return cli.Misusef("--remove %s: a client's place is needed, from client 0 to client %d", p, o.federation.Places()-1)
		}
		gone = append(gone, p.Client)
	}
	first := o.federation.Places()
	next, err := o.federation.Grow(o.key, c.Add, gone, time.Now())
	if err != nil {
		return cli.Misusef("%w", err)
	}
	if err = admission.WriteFile(c.Federation, next); err != nil {
		return err
	}
	o.federation = next
	o.tickets = slices.DeleteFunc(o.tickets, func(t admission.Ticket) bool { return next.Gone(t.Place) })
	if err = c.void(c.Remove); err != nil {
		return err
	}
	if c.Format != "json" {
		if _, err = fmt.Fprintf(s.out, "epoch %d  %d places, %d given up  %s\n", len(next.Epochs), next.Places(), len(next.Retired()), c.Federation); err != nil {
			return err
		}
	}
	if c.Add > 0 {
		for id := first; id < next.Places(); id++ {
			c.Place = append(c.Place, admission.ClientPlace(protocol.ClientID(id)))
		}
		return o.invite(c, offer, s)
	}
	if err = o.keep(c.Out); err != nil || c.Format != "json" {
		return err
	}
	return cli.PrintJSON(s.out, map[string]any{"epoch": len(next.Epochs), "places": next.Places(), "removed": c.Remove, "file": c.Federation})
}
