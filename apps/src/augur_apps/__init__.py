"""The programs: what a person types and is shown. The work is done by the packages."""
