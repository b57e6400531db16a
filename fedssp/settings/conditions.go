package settings

// These are the commonest conditions.
var (
	items    condition = Settings.Items
	explicit condition = func(s Settings) bool { return !s.Implicit() }
	implicit condition = func(s Settings) bool { return s.Implicit() && s.Items() }
	biased   condition = Settings.Biases
	encoded  condition = Settings.encodes
	notPool  condition = func(s Settings) bool { return s.Items() && !s.pooled() && !s.byUser() }
	BySums   condition = func(s Settings) bool { return s.Items() && !s.Descends() }
	inPasses condition = func(s Settings) bool { return s.encodes() && !s.Descends() }
)
