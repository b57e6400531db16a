package command

import (
	"reflect"
	"strings"
	"testing"

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
