package sweep

import (
	"github.com/fedsim/fedsim/config"
)

// ReadFile reads the file of a sweep: an experiment file in which keys may have lists of
// values, and the lists sweep.zip, sweep.skip and sweep.when of [Options].
func ReadFile(path string) ([]config.Setting, Options, error) {
	var o Options
	all, err := config.ReadLists(path)
	if err != nil {
		return nil, o, err
	}
	var said []config.Setting
	for _, s := range all {
		switch s.Key {
		case "sweep.zip":
			o.Zip = append(o.Zip, s.Value)
		case "sweep.skip":
			o.Skip = append(o.Skip, s.Value)
		case "sweep.when":
			o.When = append(o.When, s.Value)
		default:
			said = append(said, s)
		}
	}
	return said, o, nil
}

// Join appends options.
func (o Options) Join(more Options) Options {
	return Options{Zip: append(o.Zip, more.Zip...), Skip: append(o.Skip, more.Skip...), When: append(o.When, more.When...)}
}
