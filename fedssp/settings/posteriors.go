package settings

import (
	"github.com/fedsim/fedsim/config"
)

// PosteriorsKey chooses whether users send moments of posteriors.
var PosteriorsKey config.TextKey

// declarePosteriors declares the key that chooses this solver. Keys are chosen in the order of
// their declaration, so this key comes before the keys that depend on it.
func declarePosteriors() {
	// Keys are chosen in this order: this key comes before the keys that depend on it.
	PosteriorsKey = config.DeclareText(config.Key{
		Name: "statistics.posteriors", Kind: config.Word, Default: "auto", Auto: "yes of ssp-c without noise or where it is small: ε at least 100, and ε·users at least 3000 times the items, at most 20000", Words: []string{yes, no},
		When:       condition(func(s Settings) bool { return s.Items() && s.form().has(NamedVariational) && !s.Implicit() }).When(),
		Help:       "Whether users send moments of the posteriors of their embeddings, not embeddings as if they were certain, and items have posteriors.",
		ChooseWord: func(c config.Config, f *config.Facts) string { return Of(c).posteriors(f) },
		Check: func(c config.Config) string {
			if PosteriorsKey.Is(c, yes) {
				return Of(c).problemOfPosteriors()
			}
			return ""
		},
	})
}
