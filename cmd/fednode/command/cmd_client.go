package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// clientCmd is fednode client: one party, or several users of one process.
type clientCmd struct {
	Data string `required:"" placeholder:"DATA" help:"The party's ratings: a folder, zip archive or file, as for fedsim run. They stay here."`
	reading
	User       dataset.ID `placeholder:"ID" help:"Whose of these ratings; needed if they are of several users and the client is one user."`
	Part       int        `placeholder:"K" help:"Between organisations: which part, from 1 on, of the ratings of all is this party's. An organisation needs this or --ids."`
	Invitation string     `placeholder:"FILE" help:"The party's invitation; needed once."`

	Users       string `placeholder:"A..B" help:"Take part as the clients A to B, for the users at these places of --ids, from 0 on; each has a folder of its own in the state."`
	IDs         string `name:"ids" placeholder:"FILE" help:"Ids, one a line, that do not follow from ratings. With --users those of all users, client k being the one on line k+1 (default: users.txt beside the data). Between organisations those of the items (vfl) or users (hfl) that are the party's, or with --part (hfl) of all users."`
	Invitations string `placeholder:"DIR" help:"With --users: where the invitations are, client-A.json to client-B.json; needed until all are enrolled."`

	consent

	Relay []string `sep:"none" placeholder:"MULTIADDR" help:"Where a relay is, as it prints it, /p2p/ and its name included, or the aggregator itself: dialled in its place; may be repeated. Clients begin with different ones, and go on with the next when a connection fails. Enrolling takes the aggregator all the same."`

	Revocations string `placeholder:"FILE" help:"Whom the operator has revoked, from the operator itself: an aggregator could hold it back. Read again on SIGHUP; may be missing."`

	Sessions int `default:"1" placeholder:"N" help:"How many sessions it takes part in, one after another, before it ends; 0: until it is stopped. One that this state has finished does not count: it waits for the next."`

	Donate     string `placeholder:"FILE" help:"Do not take part: write the ratings of --user to this file, in clear and signed by a key of --state, for everybody to read. Give it to the operator of the server."`
	Withdraw   bool   `help:"With --donate: write a file that takes the ratings back, by the key in --state. Sessions that have begun keep them."`
	Federation string `placeholder:"FILE" help:"With --donate: the federation that the ratings are given to, as fednode invite wrote it."`

	Check bool   `help:"Open data, ids and, with --items, the list of items; say what would be trained on, and end. The client does not enrol and sends nothing. --experiment adds the scale."`
	Items string `placeholder:"PATH" help:"With --check: the list of items of the session, as for fednode server."`
	Empty bool   `help:"Take part with empty records although the data have ratings and none of the users of --users."`

	State string `placeholder:"DIR" help:"Needed, except with --check: where identity, membership and privacy ledger are kept; made if it is missing. Never restore it from a backup: it knows what was spent."`
	Ops   string `placeholder:"ADDRESS" help:"Address on this machine of metrics, health and status, like 127.0.0.1:9466. Default: nowhere."`
	probeFlag
	movedFlag
}

func (c *clientCmd) Run(ctx context.Context, s *streams) error {
	log := s.log("client")
	if err := cmp.Or(c.readable(), c.read(), c.check()); err != nil {
		return err
	}
	specs, err := c.specs()
	if err != nil {
		return err
	}
	if c.Sessions < 0 {
		return cli.Misusef("--sessions %d: a number above 0 is needed, or 0 for all that there will be", c.Sessions)
	}
	if c.State == "" && !c.Check || c.Items != "" && !c.Check {
		return cli.Misusef("--state is needed, and --items goes with --check")
	}
	if c.Donate != "" || c.Withdraw || c.Federation != "" {
		return c.donate(ctx, specs, s, &log)
	}
	if f, _, wrong := party.Of(specs[0].state, specs[0].invitation); wrong == nil && !c.Check { // else the call ends with that error
		s.starts(&log, f)
	}
	moved, err := c.moved()
	if err != nil {
		return err
	}
	relays, err := contactsOf("--relay", c.Relay)
	if err != nil {
		return err
	}
	done, err := c.prepare(ctx, specs, s, &log)
	if done || err != nil {
		return err
	}
	monitor, stop, err := c.monitored(ctx, "client", c.Ops, &log)
	if err != nil {
		return err
	}
	defer stop()
	monitor.Disk(c.State)
	workers := max(1, runtime.GOMAXPROCS(0)/len(specs))
	common := &clientHost{clientCmd: c, told: parties{path: c.Revocations}, relays: relays, moved: moved, declined: make(map[string]error)}
	monitor.Check(common.Check)
	defer common.told.follow(ctx, monitor, &log)()
	errs := make([]error, len(specs))
	var all sync.WaitGroup
	for i, at := range specs {
		all.Go(func() {
			err := common.takePart(ctx, at, monitor, protocol.Workers(workers), log)
			if err == nil || len(specs) == 1 {
				errs[i] = err
				return
			}
			if !errors.Is(err, context.Canceled) {
				log.Error().Err(err).Str("state", at.state).Msg("this client has failed") // the others may continue for long
			}
			errs[i] = fmt.Errorf("%s: %w", at.state, err)
		})
	}
	all.Wait()
	// If some clients failed, the stopped ones are left out.
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, context.Canceled) })
	return cmp.Or(errors.Join(failed...), errors.Join(errs...))
}

// readable returns an error if sessions cannot all read the files that they read: a pipe can be read once.
func (c *clientCmd) readable() error {
	switch {
	case c.Check: // nothing is read twice
	case read.Once(c.Data) && c.Sessions != 1:
		return cli.Misusef("--sessions %d: --data %s is a pipe, which can be read for one session; name a file", c.Sessions, c.Data)
	case read.Once(c.IDs):
		return cli.Misusef("--ids %s is a pipe, and the list is read again when a session begins; name a file", c.IDs)
	}
	return nil
}

func (c *clientCmd) specs() (list []clientSpec, err error) {
	if c.Users == "" {
		if c.Invitations != "" {
			return nil, cli.Misusef("--invitations goes with --users; one client has an --invitation")
		}
		which := algorithm.PartyData{User: string(c.User), Part: c.Part}
		if c.IDs != "" {
			if which.IDs, err = readIDs(c.IDs); err != nil {
				return nil, misused("--ids", err)
			}
		}
		return []clientSpec{{c.State, c.Invitation, which}}, nil
	}
	if c.User != "" || c.Part != 0 || c.Invitation != "" {
		return nil, cli.Misusef("--users goes without --user and --part, and with --invitations in place of --invitation")
	}
	first, last, ok := strings.Cut(c.Users, "..")
	from, err1 := strconv.ParseUint(first, 10, 32)
	to, err2 := strconv.ParseUint(last, 10, 32)
	if !ok || err1 != nil || err2 != nil || from > to || to >= admission.MaxClients {
		return nil, cli.Misusef("--users %s: two numbers are needed, like 0..19, the first not above the last", c.Users)
	}
	ids, err := c.allUsers()
	if err != nil {
		return nil, err
	}
	if to >= uint64(len(ids)) {
		return nil, cli.Misusef("--users %s: the list has %d ids; its last place is %d", c.Users, len(ids), len(ids)-1)
	}
	for k := from; k <= to; k++ {
		name := invitationFile(admission.ClientPlace(protocol.ClientID(k)))
		spec := clientSpec{state: filepath.Join(c.State, strings.TrimSuffix(name, ".json")), holding: algorithm.PartyData{User: ids[k]}}
		if c.Invitations != "" {
			spec.invitation = filepath.Join(c.Invitations, name)
		}
		list = append(list, spec)
	}
	return list, nil
}

// hold opens the data before an invitation is used. Until a session begins only --experiment says the
// scale; without it any number is taken.
func (c *clientCmd) hold(ctx context.Context, specs []clientSpec, log *zerolog.Logger) (h *holdings, err error) {
	var agreed config.Config
	if c.experiment != nil {
		agreed = *c.experiment
	}
	c.of(&agreed)
	o := experiment.DataOptions(agreed)
	if c.experiment == nil {
		low, high := -float64(math.MaxInt32), float64(math.MaxInt32)
		o.Min, o.Max, o.MaybeTimes = &low, &high, false
	}
	h = &holdings{left: leftOut{log: log}}
	o.Skipped = h.left.record
	if h.set, err = read.Open(ctx, c.Data, o); err != nil {
		return nil, err
	}
	h.left.end()
	if c.experiment != nil {
		if err = h.left.scale(c.Data, h.set.Len(), h.set.Min, h.set.Max); err != nil {
			return nil, err
		}
	}
	h.look(specs, c.experiment)
	return h, nil
}

// prepare reads what the client's owner has, before an invitation is used. done says that --check asks
// for no more. The ratings are read again for a session.
func (c *clientCmd) prepare(ctx context.Context, specs []clientSpec, s *streams, log *zerolog.Logger) (done bool, err error) {
	if read.Once(c.Data) && !c.Check {
		return false, nil
	}
	h, err := c.hold(ctx, specs, log)
	if !c.Check { // whose output is for the owner alone
		err = withoutContent(err)
	}
	if err != nil && !c.Check && c.Sessions == 0 && enrolled(specs) {
		log.Error().Err(err).Str("data", c.Data).Msg("the data cannot be used now; they are read again when a session begins, and a session without them is declined")
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if c.Check {
		return true, h.report(ctx, s.out, specs, c.Items)
	}
	if err = h.confirmed(); err != nil {
		return false, err
	}
	return false, h.begin(len(specs), c.Empty, log)
}

func enrolled(specs []clientSpec) bool {
	return !slices.ContainsFunc(specs, func(at clientSpec) bool {
		_, err := os.Stat(filepath.Join(at.state, party.MembershipFile))
		return err != nil
	})
}

// allUsers are the ids of all users, client by client.
func (c *clientCmd) allUsers() ([]string, error) {
	if c.IDs != "" {
		ids, err := readIDs(c.IDs)
		return ids, misused("--ids", err)
	}
	dir := c.Data
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = filepath.Dir(c.Data)
	}
	ids, err := readIDs(filepath.Join(dir, usersBeside))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--users %s: without a list of users, who has ratings would decide whose client is which, and all clients would shift if one user's ratings were gone. "+
			"List the ids of all users, one a line, with --ids or in %s (fedsim data ids DATA writes such a list)", c.Users, filepath.Join(dir, usersBeside))
	}
	return ids, misused(usersBeside, err)
}
