"""What is run and measured for the claims: each module a study or two, and what can be read off their evidence."""
