package admission

// Add takes an enrolment as verified, whatever it is.
func (v *Verified) Add(e *Enrolment) { v.add(e) }
