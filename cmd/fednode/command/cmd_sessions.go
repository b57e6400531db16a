package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results/recommend"
)

// sessionsCmd is fednode sessions. It reads files alone, so the party may run meanwhile.
type sessionsCmd struct {
	State string `required:"" placeholder:"DIR" help:"The state of a server or a client. Its process may be running."`
	formatFlag
}

type sessionLine struct {
	Session   string    `json:"session"` // in hex
	Began     time.Time `json:"began"`
	Algorithm string    `json:"algorithm"`
	// Is says how the session stands: running, ended, abandoned or without a model; of a client: taken up or finished.
	Is      string  `json:"is"`
	Clients int     `json:"clients"`
	Rounds  uint64  `json:"rounds"`                   // that it has, or had
	Budget  float64 `json:"budget_epsilon,omitempty"` // 0: without noise
	Model   string  `json:"model,omitempty"`          // folder; "": there is none here
	Current bool    `json:"current,omitempty"`        // the link current leads to this model
}

// Run lists the sessions of a state, the oldest first.
func (c *sessionsCmd) Run(s *streams) error {
	m, err := admission.ReadFile(filepath.Join(c.State, party.MembershipFile), admission.ParseMembership)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Misusef("--state %s: it does not belong to a server or a client that has enrolled", c.State)
	}
	if err != nil {
		return err
	}
	list := sessionsOfServer
	if m.Enrolment.Ticket.Place.Role == protocol.Client {
		list = sessionsOfClient
	}
	lines, err := list(c.State)
	if err != nil {
		return err
	}
	slices.SortFunc(lines, func(a, b sessionLine) int {
		return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.Session, b.Session))
	})
	return cli.PrintForm(s.out, c.Format, shown, "sessions", lines)
}

// sessionsOfServer reads the present session, and the folders of those before it.
func sessionsOfServer(state string) ([]sessionLine, error) {
	past, err := os.ReadDir(filepath.Join(state, party.PastFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dirs := append([]string{state}, lists.Map(past, func(d fs.DirEntry) string { return filepath.Join(state, party.PastFolder, d.Name()) })...)
	lines := []sessionLine{}
	for _, dir := range dirs {
		line, err := serverSession(state, dir)
		if err != nil {
			return nil, err
		}
		if line != nil && !slices.ContainsFunc(lines, func(l sessionLine) bool { return l.Session == line.Session }) {
			lines = append(lines, *line)
		}
	}
	return lines, nil
}

// serverSession reads the session of a folder; nil: there is none.
func serverSession(state, dir string) (*sessionLine, error) {
	p, err := party.ReadPublic(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(dir, party.PublicFile))
	if err != nil {
		return nil, err
	}
	l := &sessionLine{Session: fmt.Sprintf("%x", p.Session[:]), Began: info.ModTime().UTC(), Algorithm: algorithm.Of(p.Config).About().Name,
		Clients: p.Terms.Cohort.All(), Is: "running"}
	if e, failed := agreement.Open(p); failed == nil {
		l.Rounds = uint64(e.Schedule.Rounds())
		if e.Private() {
			l.Budget = e.Privacy.Budget.Epsilon
		}
	}
	model := party.ModelFolderOf(state, l.Session)
	var summed summary
	released, err := atomicfile.FindJSON(filepath.Join(model, party.SummaryFile), &summed)
	if err != nil {
		return nil, err
	}
	at, err := party.StandingOf(dir)
	switch {
	case err != nil:
		return nil, err
	case at.Abandoned:
		l.Is = "abandoned"
	case released:
		l.Is, l.Model, l.Rounds = "ended", model, summed.Rounds
		to, failed := os.Readlink(filepath.Join(state, party.CurrentLink))
		l.Current = failed == nil && filepath.Join(state, to) == model
	case at.Ended != "":
		l.Is = "ended without a model here"
	}
	return l, nil
}

// sessionsOfClient reads what the owner consented to, and which of it is finished.
func sessionsOfClient(state string) ([]sessionLine, error) {
	consents, err := store.Consents(state)
	if err != nil {
		return nil, err
	}
	finished, err := store.OpenReceipts(filepath.Join(state, party.ReceiptsFile))
	if err != nil {
		return nil, err
	}
	lines := []sessionLine{}
	for i := range consents {
		c := &consents[i]
		l := sessionLine{Session: c.Session, Began: c.At, Algorithm: c.Algorithm, Is: "taken up", Clients: c.Clients, Rounds: uint64(c.Rounds), Budget: c.Budget}
		if finished.Has(c.Session) {
			l.Is = "finished"
		}
		for _, dir := range []string{filepath.Join(state, party.ResultFolder), filepath.Join(state, party.PastFolder, c.Session, party.ResultFolder)} {
			of, err := party.SessionIn(filepath.Join(dir, party.ResultSession))
			if err != nil {
				return nil, err
			}
			if of == c.Session {
				l.Model = dir
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// ownResult says which client's result is asked, and about how many items.
type ownResult struct {
	State string `required:"" placeholder:"DIR" help:"That of fednode client, of one user or of an organisation; with --users the folder client-K in it."`
	Data  string `required:"" placeholder:"DATA" help:"The user's ratings, as for fednode client: what the user has rated is left out."`
	reading
	User   dataset.ID `placeholder:"ID" help:"Whose of these ratings; needed where they are of several users. Of an organisation: one of its users."`
	Items  string     `placeholder:"DIR" help:"Folder with a list of items that has titles: movies.csv, movies.dat, u.item or items.csv. Default: those beside the ratings, if any."`
	Top    int        `default:"10" placeholder:"N" help:"How many items. Default 10."`
	Format string     `enum:"table,json" default:"table" help:"table or json."`
}

// open opens what the last session left. Nothing but files of this device is read.
func (c *ownResult) open(ctx context.Context, s *streams) (*recommend.Recommender, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Top < 1 {
		return nil, cli.Misusef("--top %d: want at least 1", c.Top)
	}
	dir := filepath.Join(c.State, party.ResultFolder)
	e, err := party.OpenPublic(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--state %s: there is no result of a session in it yet; fednode client leaves one when a session has ended", c.State)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	c.of(&e.Config)
	return recommend.Open(experiment.Hear(ctx, cli.NewBar(s.err).Warn), dir, recommend.Options{Session: e, Data: c.Data, User: string(c.User), Titles: c.Items})
}

type recommendCmd struct{ ownResult }

func (c *recommendCmd) Run(ctx context.Context, s *streams) error {
	r, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	user := string(c.User)
	switch {
	case user != "": // of an organisation the result has all users
	case len(r.Data.UserIDs) == 1:
		user = r.Data.UserIDs[0]
	default:
		return cli.Misusef("--user: the result has %d users; say which", len(r.Data.UserIDs))
	}
	list, err := r.Recommend(user, c.Top)
	if err != nil {
		return err
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, struct {
			Items []recommend.Recommendation `json:"items"`
		}{list})
	}
	return r.PrintRecommendations(s.out, list)
}

type similarCmd struct {
	ownResult

	Item string `required:"" placeholder:"TITLE" help:"The item: its title or id, or a part of its title that no other has."`
}

func (c *similarCmd) Run(ctx context.Context, s *streams) error {
	r, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	like, err := r.Similar(c.Item, c.Top, recommend.Cosine)
	if err != nil {
		return err
	}
	if like.Note != "" {
		fmt.Fprintf(s.err, "warning: %s\n", like.Note)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, like)
	}
	fmt.Fprintf(s.out, "like %s\n\n", like.Item)
	return like.Print(s.out)
}
