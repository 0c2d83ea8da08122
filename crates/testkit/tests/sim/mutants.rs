//! Planted defects: each must be caught within a few seeds, or the simulator proves nothing.
