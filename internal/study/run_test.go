package study

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
)

// runOf makes a run of settings "key=value ..." with numbers.
func runOf(t *testing.T, settings string, values map[string]float64) *Run {
	t.Helper()
	r := &Run{Name: settings, Values: values}
	r.Manifest.Data, r.Summary.Asked = "films", make(map[string]string)
	var said []config.Setting
	for f := range strings.FieldsSeq(settings) {
		key, value, _ := strings.Cut(f, "=")
		said = append(said, config.Setting{Key: key, Value: value})
		r.Summary.Asked[key] = value
	}
	var err error
	if r.Config, err = config.Resolve(said); err != nil {
		t.Fatal(err)
	}
	return r
}
