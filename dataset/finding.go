package dataset

// Sureness says how sure a reader is of a [Finding].
type Sureness string

// How sure a reader can be.
const (
	Stated  Sureness = "stated"  // the caller or the file itself says so
	Certain Sureness = "certain" // nothing else fits the beginning of the file
	Likely  Sureness = "likely"  // most of the beginning fits
)

// Finding is one thing that a reader found out about a file before it read the ratings.
type Finding struct {
	What  string   `json:"what"`  // such as "separator"
	Found string   `json:"found"` // such as "semicolons"
	Sure  Sureness `json:"sure"`
	Why   string   `json:"why,omitempty"`
}

// String is the finding with its reason.
func (f Finding) String() string {
	text := f.Found + " (" + string(f.Sure)
	if f.Why != "" {
		text += ": " + f.Why
	}
	return text + ")"
}
