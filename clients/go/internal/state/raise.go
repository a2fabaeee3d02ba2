package state

// Raised follows the reply that has lifted the token of a grant.
func (s *State) Raised(c *Claim, token int64) *Failure {
	c.Token = token
	if loss, isLost := s.losses[token]; isLost { // reported before the reply
		s.lose(c, loss.reason)
	}
	return s.RequireHeld(c)
}
