package published

// Check is one comparison of a set with its published data.
type Check struct {
	What    string `json:"what"`    // "sha-256", "ratings"
	Got     string `json:"got"`     // what was found
	Want    string `json:"want"`    // what it should be, "" when nothing is known to compare it with
	Against string `json:"against"` // where that is known from, or why it is not
	OK      bool   `json:"ok"`
}

func Compare(what, got, want, against string) Check {
	return Check{What: what, Got: got, Want: want, Against: against, OK: got == want}
}

// CompareDigests compares an archive with the built-in digests of a set.
func CompareDigests(p Set, got FileDigest) []Check {
	if p.MD5 == "" {
		return nil
	}
	return []Check{
		Compare("md5", got.MD5, p.MD5, "built in, published by GroupLens"),
		Compare("sha-256", got.SHA256, p.SHA256, "built in"),
	}
}
