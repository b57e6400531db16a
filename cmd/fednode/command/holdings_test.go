package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
)

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// None of these calls may get as far as an invitation: there is none, and the error would say so.
func TestDataAreReadBeforeAnInvitationIsUsed(t *testing.T) {
	t.Parallel()
	good := written(t, "ratings.csv", "user,item,rating\n1,1,3\n2,1,4\n7,2,5\n")
	state := filepath.Join(t.TempDir(), "state")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{cli.Misuse, "confirm with --separator semicolon", []string{"--data", written(t, "r.csv", "user;item;rating\n1;1;3\n")}},
		{cli.Misuse, "the way to one is an invitation", []string{"--data", written(t, "r.csv", "user;item;rating\n1;1;3\n"), "--separator", "semicolon"}},
		{cli.Failed, "no header", []string{"--data", written(t, "r.csv", "1,1,3\n")}},
		{cli.Failed, "no such file", []string{"--data", filepath.Join(t.TempDir(), "none.csv")}},
		{cli.Failed, "none/client-0.json", []string{"--data", good, "--users", "0..1", "--ids", written(t, "ids", " 1\n 2\n"), "--invitations", "none"}}, // ids of the data, as run reads them
		{cli.Misuse, "the data have \"1\"", []string{"--data", good, "--users", "0..1", "--ids", written(t, "ids", "01\n02\n"), "--invitations", "none"}},
		{cli.Failed, "none/client-0.json", []string{"--data", good, "--users", "0..1", "--ids", written(t, "ids", "1.0\n2.0\n"), "--invitations", "none"}}, // ids of the data, as run reads them
		{cli.Misuse, "--empty", []string{"--data", good, "--ids", written(t, "ids", "x\ny\n"), "--users", "0..1", "--invitations", "none"}},
		{cli.Failed, "none", []string{"--data", good, "--ids", written(t, "ids", "x\ny\n"), "--users", "0..1", "--invitations", "none", "--empty"}},
		{cli.Misuse, "the way to one is an invitation", []string{"--data", good, "--user", "1"}},
		{cli.Misuse, `"NA" stands for no value`, []string{"--data", good, "--user", "NA"}},
		{cli.Misuse, "IS THE ID RIGHT", []string{"--data", good, "--user", "01"}}, // and continues, to the invitation
		{cli.Misuse, "the way to one is an invitation", []string{"--data", good, "--user", "01"}},
		{cli.Misuse, "the way to one is an invitation", []string{"--data", written(t, "r.csv", "user,item,rating\n"), "--user", "01"}},
	} {
		code, _, stderr := call(t, append([]string{"client", "--state", state}, c.args...)...)
		if code != c.code || !strings.Contains(strings.ReplaceAll(stderr, `\"`, `"`), c.want) {
			t.Errorf("%q: exit code %d\n%s\nwant code %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
	// One rule for ids: the user 1 is found by other spellings.
	if _, _, stderr := call(t, "client", "--state", state, "--data", good, "--user", " 1.0"); !strings.Contains(stderr, "the way to one is an invitation") || strings.Contains(stderr, "IS THE ID RIGHT") {
		t.Errorf("--user ' 1.0': %s", stderr)
	}
}

// An owner's other files are read before an invitation is used, too. The invitations are valid, and
// no aggregator is there. An enrolment would begin with an identity and continue until the
// deadline.
func TestOtherFilesAreReadBeforeAnInvitationIsUsed(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "2")...)
	items := filepath.Dir(written(t, "items.csv", "item_id,title\n1,A\n2,B\n"))
	bad := written(t, "revocations.json", "{")
	data := written(t, "ratings.csv", "user,item,rating\n1,1,3\n")
	server := func(args ...string) []string {
		return append([]string{"server", "--invitation", o.path("out/server.json"), "--set", "algorithm=lfl-sgdmf", "--set", "epsilon=5", written(t, "e.yaml", "")}, args...)
	}
	for name, c := range map[string]struct {
		want string
		args []string
	}{
		"server's items":       {"list of items", server("--items", t.TempDir())},
		"server's users":       {"--users", server("--items", items, "--users", "3")},
		"server's revocations": {"--revocations", server("--items", items, "--revocations", bad)},
		"server's monitor":     {"--ops", server("--items", items, "--ops", "192.0.2.1:1")},
		"client's revocations": {"--revocations", []string{"client", "--data", data, "--user", "1", "--invitation", o.path("out/client-0.json"), "--revocations", bad}},
		"party's ids":          {"--ids", []string{"align", "--invitation", o.path("out/client-0.json"), "--ids", filepath.Join(t.TempDir(), "none")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(t.TempDir(), "state")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var out, log bytes.Buffer
			code := run(ctx, append(c.args, "--state", state), &streams{out: &out, err: &log})
			if code == cli.Done || !strings.Contains(log.String(), c.want) || ctx.Err() != nil {
				t.Errorf("exit code %d, want %q:\n%s", code, c.want, &log)
			}
			if _, err := os.Stat(filepath.Join(state, party.IdentityFile)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("enrolling had begun: %v", err)
			}
		})
	}
}

// A client that does not say which of several users' ratings are its own would decline every session: it is refused before it
// enrols, and by --check. So is an organisation that states nothing, if the experiment is known.
func TestClientSaysWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	two, one := written(t, "two.csv", "user,item,rating\n1,1,3\n2,1,4\n"), written(t, "one.csv", "user,item,rating\n1,1,3\n")
	shops := written(t, "e.yaml", "algorithm: hfl-sgdmf\nparties: 3\n")
	for _, c := range []struct {
		refused bool
		args    []string
	}{
		{true, []string{"--data", two}}, {false, []string{"--data", two, "--user", "1"}}, {false, []string{"--data", one}}, {false, []string{"--data", two, "--part", "1"}},
		{false, []string{"--data", two, "--ids", written(t, "ids", "1\n")}}, {true, []string{"--data", one, "--experiment", shops}},
	} {
		checked, _, said := call(t, append([]string{"client", "--check"}, c.args...)...)
		_, _, log := call(t, append([]string{"client", "--state", filepath.Join(t.TempDir(), "s")}, c.args...)...)
		if (checked == cli.Misuse) != c.refused || strings.Contains(said, "--ids FILE") != c.refused || strings.Contains(log, "--ids FILE") != c.refused {
			t.Errorf("%q: refused is not %t: exit code %d\n%s%s", c.args, c.refused, checked, said, log)
		}
	}
}

// Invitations are deleted once they are used, so that a process of several clients starts again without them.
func TestSeveralClientsStartAgainWithoutInvitations(t *testing.T) {
	t.Parallel()
	data := written(t, "ratings.csv", "user,item,rating\n1,1,3\n2,1,4\n")
	code, _, stderr := call(t, "client", "--data", data, "--users", "0..1", "--ids", written(t, "ids", "1\n2\n"), "--state", filepath.Join(t.TempDir(), "s"))
	if code != cli.Misuse || strings.Count(stderr, "holds no membership yet") < 2 {
		t.Errorf("exit code %d; want an error of each of two states\n%s", code, stderr)
	}
}

// A user without ratings among others takes part as always: of three on the list two have any.
func TestOneAbsentUserStopsNobody(t *testing.T) {
	t.Parallel()
	data := written(t, "ratings.csv", "user,item,rating\n1,1,3\n2,1,4\n")
	code, _, stderr := call(t, "client", "--data", data, "--users", "0..2", "--ids", written(t, "ids", "1\n2\n3\n"), "--invitations", "none", "--state", filepath.Join(t.TempDir(), "s"))
	if code != cli.Failed || strings.Contains(stderr, "--empty") || !strings.Contains(stderr, "with an empty record") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

func TestCheckSaysWhatWouldBeTrainedOn(t *testing.T) {
	t.Parallel()
	data := written(t, "ratings.csv", "user,item,rating\n1,1,3\n1,2,2\n2,1,4\n2,x,9\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(data), "users.txt"), []byte("1\n2\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Counted by hand: 4 ratings of 2 users and 3 items, one item (x) is not among the 30 of the demonstration.
	code, out, stderr := call(t, "client", "--check", "--data", data, "--users", "0..2", "--invitations", "none", "--items", demo+"/items")
	for _, want := range []string{"4 ratings by 2 users of 3 items, from 2 to 9", "30 in the list; 1 ratings are of items that it lacks", `user "1": 2 ratings`, `user "3": 0 ratings`} {
		if code != cli.Done || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q in\n%s%s", code, want, out, stderr)
		}
	}
	clicks := written(t, "clicks.csv", "user,item,score\n1,1,3\n1,2,2\n2,1,4\n")
	code, out, stderr = call(t, "client", "--check", "--data", clicks, "--user", "1")
	for _, want := range []string{"3 clicks by 2 users of 2 items\n", "warning     every row counts as a click, whatever it has in score"} {
		if code != cli.Done || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q in\n%s%s", code, want, out, stderr)
		}
	}
	if code, _, _ = call(t, "client", "--check", "--data", data, "--user", "01"); code != cli.Failed {
		t.Errorf("a slip in --user: exit code %d", code)
	}
}

// Ratings of 1 to 10 in a session of 1 to 5 are refused together; one slip is left out.
func TestAnotherScaleIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	e, err := agreement.Open(published(t, "algorithm=lfl-sgdmf rounds=5"))
	if err != nil {
		t.Fatal(err)
	}
	stars := "userId,movieId,rating\n"
	for i := 1; i <= 10; i++ {
		stars += "7," + itoa(i) + "," + itoa(i) + "\n"
	}
	log := zerolog.Nop()
	d := &clientHost{clientCmd: &clientCmd{Data: written(t, "ratings.csv", stars), User: "7"}}
	_, err = d.party(t.Context(), e, clientSpec{holding: algorithm.PartyData{User: "7"}}, &log)
	if !errors.Is(err, errScale) || !strings.Contains(err.Error(), "of 10 ratings") || !strings.Contains(err.Error(), " 5 are outside") {
		t.Errorf("10 stars: %v; want a refusal that counts 5 of 10", err)
	}
	d = &clientHost{clientCmd: &clientCmd{Data: written(t, "ratings.csv", "userId,movieId,rating\n7,1,9\n7,2,9\n7,3,3\n"), User: "7"}}
	if _, err = d.party(t.Context(), e, clientSpec{holding: algorithm.PartyData{User: "7"}}, &log); err != nil {
		t.Errorf("two slips: %v", err)
	}
}

// Data that come through a pipe are read for one session, and not before it: read again, the pipe is empty, and the client would pay ε for
// an empty record.
func TestPipeIsReadForOneSession(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // nothing can be lost
	data := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err = os.Stat(data); err != nil {
		t.Skip("the system has no names of open files")
	}
	if _, err = w.WriteString("userId,movieId,rating\n7,1,4\n7,2,5\n"); err != nil {
		t.Fatal(err)
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	d := &clientHost{clientCmd: &clientCmd{Data: data, User: "7", Sessions: 1}}
	at := clientSpec{holding: algorithm.PartyData{User: "7"}}
	if _, err = d.prepare(t.Context(), []clientSpec{at}, &streams{}, &log); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []int{2, 0} {
		e, err := agreement.Open(published(t, "algorithm=lfl-sgdmf rounds=5"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.party(t.Context(), e, at, &log)
		switch {
		case wanted == 0 && (err == nil || !strings.Contains(err.Error(), "was read for another session")):
			t.Errorf("a second session: %v", err)
		case wanted > 0 && (err != nil || p.Ratings != wanted):
			t.Errorf("the first session: %v, want %d ratings", err, wanted)
		}
	}
	if code, _, stderr := call(t, "client", "--data", data, "--sessions", "0", "--state", t.TempDir()); code != cli.Misuse || !strings.Contains(stderr, "name a file") {
		t.Errorf("--sessions 0: exit code %d\n%s", code, stderr)
	}
}

// --check fails on a file of which no record can be used, and several clients do not begin with it. A single client takes part, since
// refusing would tell of its ratings, and its owner is told aloud. A header alone is an empty record.
func TestRecordsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for rows, unusable := range map[string]bool{"": false, "7,1,4 stars\n7,2,5 stars\n": true, "7,1,4 stars\n7,2,5\n": false} {
		data, said := written(t, "ratings.csv", "userId,movieId,rating\n"+rows), new(bytes.Buffer)
		want := map[bool]int{false: cli.Done, true: cli.Failed}[unusable]
		if code, out, stderr := call(t, "client", "--check", "--data", data, "--user", "7"); code != want || strings.Contains(stderr, "no record can be used") != unusable {
			t.Errorf("%q: exit code %d, want %d\n%s%s", rows, code, want, out, stderr)
		}
		log := zerolog.New(said)
		c := &clientCmd{Data: data}
		one := clientSpec{holding: algorithm.PartyData{User: "7"}}
		h, err := c.hold(t.Context(), []clientSpec{one}, &log)
		if err != nil {
			t.Fatal(err)
		}
		if err = h.begin(1, false, &log); err != nil || strings.Contains(said.String(), "pays epsilon for nothing") != unusable {
			t.Errorf("%q: %v, said %s", rows, err, said)
		}
		if err = h.begin(2, false, &log); (err != nil) != unusable {
			t.Errorf("%q, two clients: %v", rows, err)
		}
	}
}

// The list of ids is read with the data, for each session.
func TestIDsAreReadAgain(t *testing.T) {
	t.Parallel()
	ids := written(t, "ids", "1\n2\n")
	c := &clientCmd{Data: demo + "/ratings.csv", IDs: ids, State: "s"}
	specs, err := c.specs()
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(new(bytes.Buffer))
	again := func(text string) (algorithm.PartyData, error) {
		if failed := os.WriteFile(ids, []byte(text), 0o600); failed != nil {
			t.Fatal(failed)
		}
		e, failed := agreement.Open(published(t, "algorithm=lfl-sgdmf rounds=5"))
		if failed != nil {
			t.Fatal(failed)
		}
		d := &clientHost{clientCmd: c, opened: e}
		_, which, failed := d.ratings(t.Context(), e, specs[0], &log)
		return which, failed
	}
	if which, failed := again("1\n2\n3\n"); failed != nil || len(which.IDs) != 3 {
		t.Errorf("%q, %v; want the 3 ids of now", which.IDs, failed)
	}
	c = &clientCmd{Data: c.Data, IDs: ids, State: "s", Users: "0..1", Invitations: "x"}
	if specs, err = c.specs(); err != nil {
		t.Fatal(err)
	}
	if _, err := again("1\n2\n3\n4\n"); err != nil {
		t.Errorf("users at the end of the list: %v", err)
	}
	if _, err := again("9\n1\n2\n"); !errors.Is(err, errOther) {
		t.Errorf("a client became that of another user, whose epsilon its ledger did not count: %v", err)
	}
}

// A client's log and its last error hold no rating of a file, only the line (SECURITY.md, 11). --check shows the
// owner the value.
func TestLogsHoldNoRating(t *testing.T) {
	t.Parallel()
	e, err := agreement.Open(published(t, "algorithm=lfl-sgdmf rounds=5"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ row, says string }{
		"off the scale": {"7,4,73.625", ":5"},
		"no number":     {"7,4,73.625stars", ":5"},
		"no row":        {`7,"4,73.625`, ""},
	} {
		var text bytes.Buffer
		log := zerolog.New(&text)
		d := &clientHost{clientCmd: &clientCmd{Data: written(t, "ratings.csv", "userId,movieId,rating\n7,1,4\n7,2,4\n7,3,3\n"+c.row+"\n"), User: "7"}}
		_, err := d.party(t.Context(), e, clientSpec{holding: algorithm.PartyData{User: "7"}}, &log)
		all := strings.ReplaceAll(text.String(), `"line":5`, ":5") + fmt.Sprint(err)
		if strings.Contains(all, "73.625") || !strings.Contains(all, c.says) {
			t.Errorf("%s: %s", name, all)
		}
	}
	f := &dataset.FileError{File: "r.csv", Line: 5, Err: errors.New(`the rating 4.5 of "ann \"x\"" is 1e-3 above 4`)}
	if got := withoutContent(fmt.Errorf("in a folder: %w", f)).Error(); got != "r.csv:5: the rating … of … is … above …" {
		t.Errorf("an error without content is %q", got)
	}
}
