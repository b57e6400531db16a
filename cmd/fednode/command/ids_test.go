package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
)

// A list of ids decides whose client is which, not the ratings. Without the ratings of user 3 all
// other users keep their seats, and seat 2 is still that user's.
func TestSeatsDoNotShift(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := write("ratings.csv", "user,item,rating\n1,a,3\n2,a,3\n4,a,3\n5,a,3\n")
	if _, err := (&clientCmd{Data: data, Users: "0..4", Invitations: "x", State: "s"}).specs(); !cli.IsMisuse(err) || !strings.Contains(err.Error(), "--ids") {
		t.Errorf("a range without a list: %v; want it refused with the remedy", err)
	}
	beside := write("users.txt", "1\n2\n3\n4\n5\n")
	elsewhere := write("all.txt", "\ufeff1\r\n2\r\n3\r\n4\r\n5\r\n") // as some editors write
	for _, c := range []struct {
		users, ids, data string
		want             []string
	}{
		{"0..4", beside, data, []string{"1", "2", "3", "4", "5"}},
		{"1..3", elsewhere, data, []string{"2", "3", "4"}},
		{"0..2", "", data, []string{"1", "2", "3"}},
		{"0..2", "", dir, []string{"1", "2", "3"}},
	} {
		list, err := (&clientCmd{Data: c.data, Users: c.users, IDs: c.ids, Invitations: "x", State: "s"}).specs()
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var got []string
		for _, at := range list {
			got = append(got, at.holding.User)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: the seats are of %q", c, got)
		}
	}
	for _, c := range []struct{ users, ids, want string }{
		{"0..5", beside, "5 ids"},
		{"0..1", write("twice.txt", "1\n2\n1\n"), ":3: the id"},
		{"0..1", write("gap.txt", "1\n\n2\n"), ":2: the line is empty"},
		{"0..1", write("empty.txt", ""), "no id"},
		{"0..1", filepath.Join(dir, "none.txt"), "none.txt"},
	} {
		if list, err := (&clientCmd{Data: data, Users: c.users, IDs: c.ids, Invitations: "x", State: "s"}).specs(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %+v, %v", c, list, err)
		}
	}
}

// An organisation's own users are the users on its list.
func TestOrganisationStatesItsIDs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.txt")
	if err := os.WriteFile(file, []byte("7\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := (&clientCmd{Data: "d", IDs: file, Part: 2, State: "s"}).specs()
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if which := list[0].holding; which.Part != 2 || !slices.Equal(which.IDs, []string{"7", "3"}) {
		t.Errorf("%+v", which)
	}
}
