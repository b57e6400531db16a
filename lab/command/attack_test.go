package command

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/attack"
)

// TestEveryAttackIsOffered compares the words of the command with the kinds of the package.
func TestEveryAttackIsOffered(t *testing.T) {
	field, _ := reflect.TypeFor[attackCmd]().FieldByName("Attack")
	var kinds []string
	for _, k := range attack.Kinds() {
		kinds = append(kinds, string(k))
		if !strings.Contains(field.Tag.Get("help"), string(k)+", ") {
			t.Errorf("the help says nothing of %s", k)
		}
	}
	if got, want := field.Tag.Get("enum"), strings.Join(kinds, ","); got != want {
		t.Errorf("the command takes %s, want %s", got, want)
	}
}

// TestNumbersOfOtherAttacksAreRefused has numbers that an attack does not take: runs are of lies, targets and shadows of others.
func TestNumbersOfOtherAttacksAreRefused(t *testing.T) {
	for _, c := range []*attackCmd{
		{Attack: attack.Promote, Targets: 5}, {Attack: attack.Degrade, Shadows: 8}, {Attack: attack.MembershipUser, Runs: 5},
	} {
		if err := c.Run(context.Background(), verb.Streams{Out: io.Discard, Err: io.Discard}); err == nil || !strings.Contains(err.Error(), "--runs") {
			t.Errorf("%s: %v, want an error that names --runs", c.Attack, err)
		}
	}
}
