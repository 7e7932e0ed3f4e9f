"""Where energies and areas come from: tables, component models, Accelergy and hwcomponents."""
